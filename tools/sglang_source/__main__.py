"""python3 tools/sglang_source DIR: answers a2asim's questions with the functions of the SGLang checkout in DIR.

One JSON object a line in both directions; docs/real_code.md describes it. Code of the checkout runs in this process.
"""

import json
import logging
import os
import sys
import warnings
from pathlib import Path

if sys.version_info < (3, 10):
    print(json.dumps({"protocol": 1, "refused": "Python 3.10 or newer is needed to run the checkout's functions"}))
    sys.exit(2)
sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True

from checkout import Checkout, Unfit, lacks  # noqa: E402
from gather import Gather  # noqa: E402
from graphs import Bucket, Capture  # noqa: E402
from padding import Padding  # noqa: E402
from sizing import Dispatcher  # noqa: E402
from startup import Refused, Startup  # noqa: E402
from sync import Sync  # noqa: E402

PROTOCOL = 1
KINDS = {
    "startup": (Startup, "answer"),
    "gather": (Gather, "answer"),
    "sync": (Sync, "answer"),
    "padding": (Padding, "answer"),
    "capture": (Capture, "answer"),
    "bucket": (Bucket, "answer"),
    "sizing": (Dispatcher, "sizing"),
    "cap": (Dispatcher, "cap"),
}


class Engine:
    def __init__(self, checkout):
        # An answer depends on the question, not on who asks or what was asked before.
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("SGLANG_")}
        self._clean()
        self.checkout = checkout
        self.answers, self.worlds, self.unfit = {}, {}, {}
        adapters = {}
        for kind, (adapter, method) in KINDS.items():
            try:
                if adapter not in adapters:
                    adapters[adapter] = self._make(adapter, checkout)
                made = adapters[adapter]
                if isinstance(made, str):
                    raise Unfit(made)
                self.answers[kind], self.worlds[kind] = getattr(made, method), made.world
            except Unfit as why:
                self.unfit[kind] = str(why)

    def _clean(self):
        os.environ.clear()
        os.environ.update(self.environment)

    @staticmethod
    def _make(adapter, checkout):
        try:
            return adapter(checkout)
        except Unfit as why:
            return str(why)
        except Exception as error:  # raised by text of the checkout
            return f"{_where(error, checkout)}: raised while it was loaded: {in_words(error)}"

    def hello(self):
        ran = {kind: sorted({f"{world.checkout.short(m)}: {name}" for m, name in world.executed})
               for kind, world in self.worlds.items()}
        return {"protocol": PROTOCOL, "engine": "sglang-source", "kinds": ran, "unfit": self.unfit}

    def ask(self, line):
        kind = line.get("kind")
        if kind not in KINDS:
            return {"refused": f"no kind of question is called {kind!r}; there are {', '.join(KINDS)}"}
        if kind not in self.answers:
            return {"unfit": self.unfit[kind]}
        self._clean()
        answer, fields = self.answers[kind], line["fields"]
        return {"answers": [self._one(kind, answer, dict(zip(fields, question))) for question in line["questions"]]}

    def _one(self, kind, answer, question):
        try:
            return {"out": answer(question)}
        except Unfit as why:
            return {"unfit": str(why)}
        except Refused as why:
            return {"error": str(why)}
        except KeyError as error:
            if error.__traceback__.tb_next is None or error.__traceback__.tb_next.tb_next is None:
                return {"unfit": f"the question has no field {error}"}
            return {"error": in_words(error)}
        except Exception as error:  # what the text of the checkout raises is an answer
            if lacks(error):
                return {"unfit": f"{_where(error, self.checkout)}: a stand-in does not fit: {in_words(error)}"}
            return {"error": in_words(error)}


def in_words(error):
    return type(error).__name__ + (f": {error}" if str(error) else "")


def _where(error, checkout):
    """The innermost place in the checkout that an error went through."""
    place, step = str(checkout.base), error.__traceback__
    while step is not None:
        path = step.tb_frame.f_code.co_filename
        if path.startswith(str(checkout.base)):
            place = f"{Path(path).relative_to(checkout.base.parent)}:{step.tb_lineno}"
        step = step.tb_next
    return place


def main():
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    if len(sys.argv) != 2:
        print("usage: python3 sglang_source DIR", file=sys.stderr)
        return 2
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the checkout prints must not look like an answer
    try:
        engine = Engine(Checkout(sys.argv[1]))
    except Unfit as why:
        print(json.dumps({"protocol": PROTOCOL, "refused": str(why)}), file=replies, flush=True)
        return 2
    for text in sys.stdin:
        line = json.loads(text)
        if "protocol" in line:
            known = line["protocol"] == PROTOCOL
            reply = engine.hello() if known else {"refused": f"protocol {line['protocol']} is not known, {PROTOCOL} is"}
        else:
            reply = {"id": line.get("id"), **engine.ask(line)}
        replies.write(json.dumps(reply, separators=(",", ":")) + "\n")
        replies.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
