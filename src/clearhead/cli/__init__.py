"""The command line: one file per verb, imported only when the verb is used, so that --help is instant."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # nothing is imported before `main`, which says it in one line when Ctrl-C stops an import
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["VERBS", "main"]

INTERRUPTED = 130  # exit code of what Ctrl-C stopped: 128 and the number of the signal
# verb -> (where it lives, what --help says of it)
VERBS = {
    "inspect": ("inspect:inspect", "Look at data before training on it: columns, labels, duplicates, leaks, lengths."),
    "train": ("train:train", "Train on a file of texts and labels; leaves a model folder and a report."),
    "pretrain": ("pretrain:pretrain", "Make a language model from plain text, and judge it on text held out."),
    "ladder": ("ladder:ladder", "Train every method on the same rows and recommend the cheapest that is as good."),
    "evaluate": ("evaluate:evaluate", "Measure a trained model on rows whose labels are known."),
    "predict": ("predict:predict", "Answer a text, or every row of a file, with a trained model."),
    "ask": ("ask:ask", "Find the answer to a question in a passage."),
    "models": ("models:models", "List the models on this machine: aliases, shipped ones and the hub's cache."),
    "describe": ("describe:describe", "Tell what a model is: architecture, sizes, tokenizer, head, passport."),
    "learn-tokenizer": ("learn_tokenizer:learn_tokenizer", "Learn a tokenizer from text: BPE, unigram or WordPiece."),
    "tokens": ("tokens:tokens", "Show how a text is cut into tokens, with ids and character offsets."),
    "embed": ("embed:embed", "Turn the texts of a file into vectors."),
    "fill": ("fill:fill", "Guess the words behind [MASK]."),
    "word2vec": ("word2vec:word2vec", "Learn a vector for each word of a text: skip-gram or CBOW."),
    "words": ("words:words", "Ask word vectors: neighbours, king - man + woman, WordSim, SimLex and analogies."),
    "contrast": ("contrast:contrast", "Show what context does to a word: one word in two sentences, layer by layer."),
    "generate": ("generate:generate", "Let a causal model go on from a prompt, a file of prompts or a pipe."),
    "translate": ("translate:translate", "Translate a text, a file or a pipe, line by line."),
    "quantize": ("quantize:quantize", "Make a model run in eight bits, if it stays good enough on your own rows."),
    "explain": ("explain:explain", "Draw what each word looks at, and how a decoder finds its words."),
    "bench": ("bench:bench", "Measure how fast a model runs on this machine, beside what others would run it with."),
    "complexity": ("complexity:complexity", "Time self-attention, recurrence and convolution over length and width."),
    "convert": ("convert:convert", "Copy a model to a safe folder, also from a pickle that you trust."),
    "export": ("export:export", "Write a model as ONNX with its tokenizer, for other runtimes."),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one verb; a user's mistake is one sentence on stderr and exit code 2.

    So is whatever the system refuses: a name that is too long, a disk that is full, a stream that is closed. Ctrl-C is
    a line and exit code 130, also while a library is imported that turns it into an error of its own.
    """
    interrupts: list[int] = []
    noted = False
    try:
        noted = arguments is None and _note_interrupts(interrupts)
        _guarded(arguments, interrupts)
    except KeyboardInterrupt as error:
        _stop_interrupted(noted, reported=getattr(error, "reported", False))
    except Exception:
        if not interrupts:
            raise
        _stop_interrupted(noted)
    finally:
        if noted and not interrupts:
            import signal

            signal.signal(signal.SIGINT, signal.default_int_handler)


def _note_interrupts(interrupts: list[int]) -> bool:
    """Note every Ctrl-C and raise KeyboardInterrupt as Python does; False where somebody else handles it."""
    import signal
    import threading

    if threading.current_thread() is not threading.main_thread():
        return False
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return False

    def handle(number: int, _frame: object) -> None:
        interrupts.append(number)
        raise KeyboardInterrupt

    handle.raises_interrupt = True  # type: ignore[attr-defined]  # training finishes its step first
    signal.signal(signal.SIGINT, handle)
    return True


def _guarded(arguments: Sequence[str] | None, interrupts: list[int]) -> None:
    from contextlib import nullcontext

    from cyclopts import CycloptsError

    from clearhead.cli.screen import plain_warnings
    from clearhead.cli.streams import any_streams, flush_output, leave_output
    from clearhead.errors import ClearheadError, MissingExtraError, MissingPackageError

    with any_streams(), plain_warnings() if arguments is None else nullcontext():  # a program shows its own
        try:
            _run(sys.argv[1:] if arguments is None else arguments)
            flush_output()
        except (MissingExtraError, MissingPackageError) as error:
            if interrupts:  # the package is there, and its import was interrupted
                raise KeyboardInterrupt from None
            _stop(str(error))
        except ClearheadError as error:
            typed = sys.argv[1:] if arguments is None else arguments
            _stop(_in_flags(str(error), typed), INTERRUPTED if interrupts else 2)
        except CycloptsError as error:
            _stop(_plain(error))
        except BrokenPipeError:  # the reader of our output has gone; nothing is left to say
            leave_output()
            sys.exit(1)
        except OSError as error:
            _stop(_refused(error))


def _run(arguments: Sequence[str]) -> None:
    from cyclopts import App

    from clearhead import __version__
    from clearhead.caller import use_caller
    from clearhead.cli.flags import ShellCaller
    from clearhead.cli.streams import typed

    app = App(
        name="clearhead",
        help="From the text you have to a language model you understand, can trust and can afford to run.",
        version=__version__,
        help_format="plaintext",
        result_action="return_value",
        suppress_keyboard_interrupt=False,
    )
    for verb, (place, said) in VERBS.items():
        app.command(f"clearhead.cli.{place}", name=verb, help=said)
    app.register_install_completion_command(help="Install completion for this shell.")
    spoken = next((argument for argument in arguments if argument in VERBS), None)
    with use_caller(ShellCaller(spoken)):
        app(typed(arguments), exit_on_error=False, print_error=False)


def _in_flags(message: str, arguments: Sequence[str]) -> str:
    """A message with the flags of the verb that was typed."""
    from clearhead.cli.flags import in_flags

    return in_flags(message, next((argument for argument in arguments if argument in VERBS), None))


def _refused(error: OSError) -> str:
    """What the system refused, as one sentence."""
    from clearhead.api.support import describe_os_error, format_path

    if error.filename is not None:
        return f"{format_path(error.filename)} cannot be read or written: {describe_os_error(error)}."
    return f"Standard output or a file cannot be written: {describe_os_error(error)}."  # the system does not say which


def _plain(error: Exception) -> str:
    """A mistake in the arguments as one line, with the way out."""
    said = " ".join(str(error).split())
    return f"{said} (see clearhead --help)"


def _stop(said: str, code: int = 2) -> None:
    from contextlib import suppress

    from clearhead.cli.streams import flush_output, leave_output
    from clearhead.errors import ClearheadError

    with suppress(OSError):
        sys.stderr.write(f"clearhead: {said}\n")
    with suppress(ClearheadError, BrokenPipeError):
        flush_output()
        sys.exit(code)
    leave_output()
    sys.exit(code)


def _stop_interrupted(noted: bool, *, reported: bool = False) -> None:
    """One line, unless the verb has said more; a second Ctrl-C ends the process at once."""
    from contextlib import suppress

    if noted:
        import signal

        signal.signal(signal.SIGINT, signal.SIG_DFL)
    with suppress(OSError, AttributeError, ValueError):  # stderr is closed or full
        sys.stderr.write("" if reported else "clearhead: interrupted\n")
    try:
        sys.stdout.flush()
    except (OSError, AttributeError, ValueError):
        from clearhead.cli.streams import leave_output

        leave_output()
    sys.exit(INTERRUPTED)


__all__ = ["VERBS", "main"]
