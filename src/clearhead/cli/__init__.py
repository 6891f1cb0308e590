"""The command line: one file per command, imported only when the command is used, so that --help is fast."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # nothing is imported before `main`, which handles Ctrl-C during imports
if TYPE_CHECKING:
    from collections.abc import Sequence

    from cyclopts import App

__all__ = ["VERBS", "main"]

INTERRUPTED = 130  # exit code after Ctrl-C: 128 and the number of the signal
DATA, TRAIN, USE = "Check and train", "Pre-train and tokenize", "Use a model"
INSIDE, WORDS, DEPLOY = "Look inside", "Word vectors", "Compress and measure"
# command -> (module and function, group in --help, summary)
VERBS = {
    "inspect": ("inspect:inspect", DATA, "Check data before training: columns, labels, duplicates, leaks, lengths."),
    "train": ("train:train", DATA, "Train on texts and labels; writes a model folder and a report."),
    "evaluate": ("evaluate:evaluate", DATA, "Measure a trained model on labeled rows."),
    "ladder": ("ladder:ladder", DATA, "Train several methods and recommend the cheapest one that is good enough."),
    "pretrain": ("pretrain:pretrain", TRAIN, "Pre-train a language model on plain text."),
    "learn-tokenizer": ("learn_tokenizer:learn_tokenizer", TRAIN, "Train a BPE, unigram or WordPiece tokenizer."),
    "predict": ("predict:predict", USE, "Predict one text, or every row of a file."),
    "ask": ("ask:ask", USE, "Answer a question from a passage."),
    "embed": ("embed:embed", USE, "Turn texts into vectors."),
    "fill": ("fill:fill", USE, "Predict the words hidden by [MASK]."),
    "generate": ("generate:generate", USE, "Continue prompts with a causal language model."),
    "translate": ("translate:translate", USE, "Translate a text, a file or standard input."),
    "models": ("models:models", USE, "List the models on this machine."),
    "describe": ("describe:describe", INSIDE, "Show architecture, sizes, tokenizer, head and passport of a model."),
    "tokens": ("tokens:tokens", INSIDE, "Show the tokens of a text, with ids and character offsets."),
    "explain": ("explain:explain", INSIDE, "Draw attention, alignments and decoding steps."),
    "complexity": ("complexity:complexity", INSIDE, "Time self-attention, recurrence and convolution."),
    "word2vec": ("word2vec:word2vec", WORDS, "Train word vectors with skip-gram or CBOW."),
    "words": ("words:words", WORDS, "Query word vectors: neighbors, analogies, similarity benchmarks."),
    "contrast": ("contrast:contrast", WORDS, "Compare the vectors of a word in two sentences, layer by layer."),
    "quantize": ("quantize:quantize", DEPLOY, "Convert a model to int8 if it stays accurate on your data."),
    "export": ("export:export", DEPLOY, "Write a model as ONNX with its tokenizer."),
    "convert": ("convert:convert", DEPLOY, "Copy a model to a safetensors folder, also from a trusted pickle."),
    "bench": ("bench:bench", DEPLOY, "Measure speed and memory of a model on this machine."),
}
FIRST_STEPS = """\
Clearhead trains, measures and runs language models on an ordinary machine.

Start with:
  clearhead inspect FILE             Check labels, duplicates, leaks, lengths.
  clearhead train FILE               Train a model and write a report.
  clearhead evaluate MODEL FILE      Measure a model on labeled rows.
  clearhead predict MODEL TEXT|FILE  Predict a text, or every row of a file.
  clearhead embed MODEL FILE -o OUT  Turn texts into vectors.

All commands:          clearhead --help
Options of a command:  clearhead COMMAND --help
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; a mistake of the user is one sentence on stderr and exit code 2.

    The same holds for errors of the operating system, such as a full disk or a closed stream. Ctrl-C ends with one line
    and exit code 130, even during an import that turns it into an error of its own.
    """
    interrupts: list[int] = []
    is_recording = False
    try:
        is_recording = arguments is None and _record_interrupts(interrupts)
        _run_reporting_errors(arguments, interrupts)
    except KeyboardInterrupt as error:
        _exit_interrupted(is_recording, reported=getattr(error, "reported", False))
    except Exception:
        if not interrupts:
            raise
        _exit_interrupted(is_recording)
    finally:
        if is_recording and not interrupts:
            import signal

            signal.signal(signal.SIGINT, signal.default_int_handler)


def _record_interrupts(interrupts: list[int]) -> bool:
    """Record every Ctrl-C and raise KeyboardInterrupt, as Python does; False if another handler is installed."""
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


def _run_reporting_errors(arguments: Sequence[str] | None, interrupts: list[int]) -> None:
    from contextlib import nullcontext

    from cyclopts import CycloptsError

    from clearhead.cli.screen import plain_warnings
    from clearhead.cli.streams import flush_output, leave_output, usable_streams
    from clearhead.cli.verbose import print_traceback, split_verbose, use_verbose
    from clearhead.errors import ClearheadError, MissingExtraError, MissingPackageError

    typed, verbose = split_verbose(sys.argv[1:] if arguments is None else arguments)
    verb = next((argument for argument in typed if argument in VERBS), None)
    own_warnings = plain_warnings() if arguments is None else nullcontext()  # a calling program shows its own
    with usable_streams(), own_warnings, use_verbose(verbose):
        try:
            _run(typed, verb)
            flush_output()
        except (MissingExtraError, MissingPackageError) as error:
            if interrupts:  # the package is installed, but its import was interrupted
                raise KeyboardInterrupt from None
            print_traceback(error)
            _exit_with_message(str(error))
        except ClearheadError as error:
            from clearhead.cli.flags import name_flags

            print_traceback(error)
            _exit_with_message(name_flags(str(error), verb), INTERRUPTED if interrupts else 2)
        except CycloptsError as error:
            _exit_with_message(_format_usage_error(error, verb))
        except BrokenPipeError:  # the reader of our output has ended
            leave_output()
            sys.exit(1)
        except OSError as error:
            print_traceback(error)
            _exit_with_message(_format_os_error(error))


def _run(arguments: Sequence[str], verb: str | None) -> None:
    from clearhead.caller import use_caller
    from clearhead.cli.flags import ShellCaller, replace_former_flags
    from clearhead.cli.streams import decode_arguments
    from clearhead.cli.verbose import print_settings, timed_command

    if not arguments:
        sys.stdout.write(FIRST_STEPS)
        return
    with use_caller(ShellCaller(verb)):
        app = _make_app(verb)
        tokens = replace_former_flags(decode_arguments(arguments), verb)
        command, bound, _ = app.parse_args(tokens, exit_on_error=False, print_error=False)
        print_settings(verb, bound)
        with timed_command():
            command(*bound.args, **bound.kwargs)


def _make_app(verb_in_use: str | None) -> App:
    """The cyclopts application; the modules of its commands are imported when they are used."""
    from cyclopts import App, Group, Parameter

    from clearhead import __version__
    from clearhead.cli.help_layout import HelpLayout

    groups = {
        group: Group(group, sort_key=number) for number, group in enumerate(dict.fromkeys(v[1] for v in VERBS.values()))
    }
    app = App(
        name="clearhead",
        help="From the text you have to a language model you understand, can trust and can afford to run.",
        help_epilogue="All commands accept --verbose (settings, timings and tracebacks on stderr).",
        version=__version__,
        help_format="plaintext",
        help_formatter=HelpLayout(verb_in_use),
        group_commands=Group("Other", sort_key=99),
        default_parameter=Parameter(show_default=False, negative=()),
        suppress_keyboard_interrupt=False,
    )
    for number, (verb, (function, group, summary)) in enumerate(VERBS.items()):
        options = {} if verb == verb_in_use else {"help": summary}  # a command's own help is its docstring
        app.command(f"clearhead.cli.{function}", name=verb, group=groups[group], sort_key=number, **options)
    app.register_install_completion_command(help="Install shell completion.")
    return app


def _format_usage_error(error: Exception, verb: str | None) -> str:
    """A mistake in the arguments on one line, with the command that shows the right ones."""
    help_command = "clearhead --help" if verb is None else f"clearhead {verb} --help"
    return f"{' '.join(str(error).split())} (see {help_command})"


def _format_os_error(error: OSError) -> str:
    """An error of the operating system as one sentence."""
    from clearhead.api.support import describe_os_error, format_path

    if error.filename is not None:
        return f"{format_path(error.filename)} cannot be read or written: {describe_os_error(error)}."
    return f"Standard output or a file cannot be written: {describe_os_error(error)}."  # the system does not name it


def _exit_with_message(message: str, code: int = 2) -> None:
    from contextlib import suppress

    from clearhead.cli.streams import flush_output, leave_output
    from clearhead.errors import ClearheadError

    with suppress(OSError):
        sys.stderr.write(f"clearhead: {message}\n")
    with suppress(ClearheadError, BrokenPipeError):
        flush_output()
        sys.exit(code)
    leave_output()
    sys.exit(code)


def _exit_interrupted(is_recording: bool, *, reported: bool = False) -> None:
    """Print one line, unless the command has printed its own; a second Ctrl-C ends the process at once."""
    from contextlib import suppress

    if is_recording:
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
