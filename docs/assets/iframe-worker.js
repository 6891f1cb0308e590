// Browsers refuse workers to pages that are opened as files: there the search runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inner = this.frame.contentDocument;
      inner.open();
      inner.write("<!doctype html><title>search</title>");
      inner.close();
      const load = (source) =>
        new Promise((resolve, reject) => {
          const script = inner.createElement("script");
          script.src = source;
          script.onload = resolve;
          script.onerror = reject;
          inner.head.append(script);
        });
      const scope = this.frame.contentWindow;
      scope.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      scope.importScripts = (...sources) => sources.reduce((done, next) => done.then(() => load(next)), Promise.resolve());
      this.ready = load(url);
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
