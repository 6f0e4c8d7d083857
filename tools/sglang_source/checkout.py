"""Finds functions of a checkout by name and runs their real text.

A World is one set of stand-ins over one checkout. It stands for the package `sglang` without importing it: a name is taken
from the stand-ins, else from the text of the module that defines it (through `ast`, one definition at a time, when it is first
used), else from the module that it is imported from. What is neither there nor in the standard library is Unknown: it may be
passed around, and raises Unfit as soon as something depends on its value.
"""

import __future__

import ast
import builtins
import functools
import re
import sys
import typing
from pathlib import Path

_ANNOTATIONS = __future__.annotations.compiler_flag  # annotations are text: what they name is not needed to run
_DEFINITIONS = (ast.FunctionDef, ast.ClassDef)
_worlds = 0


class Unfit(Exception):
    """The text of the checkout is not what an adapter knows: where, and what was expected."""


_OURS = Path(__file__).resolve().parent


@functools.lru_cache(maxsize=None)
def _stand_ins():
    """Names of our modules, and of their classes."""
    modules = {path.stem for path in _OURS.glob("*.py")}
    loaded = [vars(sys.modules[name]) for name in modules if name in sys.modules]
    return modules, {name for names in loaded for name, value in names.items() if isinstance(value, type)}


def lacks(error):
    """Whether an error is about a stand-in, which lacks what the text asks of it: no answer of the checkout's."""
    if not isinstance(error, (AttributeError, TypeError, NotImplementedError)):
        return False
    modules, classes = _stand_ins()
    step = error.__traceback__
    while step.tb_next is not None:
        step = step.tb_next
    if type(getattr(error, "obj", None)).__module__ in modules or Path(step.tb_frame.f_code.co_filename).parent == _OURS:
        return True
    return not classes.isdisjoint(re.findall(r"\w+", " ".join(re.findall(r"^\w+\.|'\w+'", str(error)))))


class Unknown:
    """A value that nothing here knows. Attributes and calls give more of the kind; a decision on it raises Unfit."""

    def __init__(self, name):
        object.__setattr__(self, "_name", name)

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Unknown(f"{self._name}.{name}")

    def __call__(self, *args, **kwargs):
        if len(args) == 1 and not kwargs and (callable(args[0]) and hasattr(args[0], "__name__")):
            return args[0]  # a decorator
        return Unknown(f"{self._name}()")

    def __mro_entries__(self, bases):
        return (_UnknownBase,)

    def __getitem__(self, key):
        return Unknown(f"{self._name}[..]")

    def __hash__(self):
        return id(self)

    def __repr__(self):
        return f"<unknown {self._name}>"

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False

    def _decide(self, *other):
        raise Unfit(f"the result depends on {self._name}, which has no stand-in")

    def __or__(self, other):
        return Unknown(f"{self._name} | ..")

    __ror__ = __or__
    __bool__ = __iter__ = __len__ = __int__ = __index__ = __float__ = __contains__ = _decide
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _decide
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = _decide
    __truediv__ = __rtruediv__ = __mod__ = __rmod__ = __neg__ = _decide


class _UnknownBase:
    def __init_subclass__(cls, **_):
        pass


class Checkout:
    """The files of a checkout: DIR/python/sglang, DIR/sglang, or DIR itself."""

    def __init__(self, root):
        root = Path(root)
        places = [root / "python", root, root.parent]
        self.base = next((place for place in places if (place / "sglang" / "srt").is_dir()), None)
        if self.base is None or (self.base == root.parent and root.name != "sglang"):
            raise Unfit("no SGLang checkout: expected the folder python/sglang/srt in it")
        self._parsed = {}

    def file_of(self, module):
        """The file of a dotted name, or None."""
        path = self.base.joinpath(*module.split("."))
        if path.is_dir():
            path = path / "__init__.py"
        else:
            path = path.with_suffix(".py")
        return path if path.is_file() else None

    def tree(self, module):
        if module not in self._parsed:
            path = self.file_of(module)
            text = path.read_text(encoding="utf-8", errors="replace") if path else ""
            try:
                self._parsed[module] = ast.parse(text, str(path))
            except SyntaxError as error:
                raise Unfit(f"{self.short(module)}:{error.lineno}: no Python of this interpreter: {error.msg}") from error
        return self._parsed[module]

    def short(self, module):
        path = self.file_of(module)
        return str(path.relative_to(self.base.parent)) if path else module

    def modules_with(self, names, skip=()):
        """Dotted names of the modules that define one of the names at their top, in order of path."""
        needles = [f"{word} {name}".encode() for name in names for word in ("def", "class")]
        found = []
        for path in sorted((self.base / "sglang" / "srt").rglob("*.py")):
            if any(part in skip for part in path.parts) or not any(needle in path.read_bytes() for needle in needles):
                continue
            parts = list(path.relative_to(self.base).with_suffix("").parts)
            module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            if any(isinstance(node, _DEFINITIONS) and node.name in names for node in self.tree(module).body):
                found.append(module)
        return found

    def locate(self, names, hints):
        """(module, node) of the first of `names`. hints: modules that are asked first."""
        for module in hints:
            for name in names:
                node = definition(self.tree(module), name)
                if node is not None:
                    return module, node
        for name in names:
            modules = self.modules_with([name])
            if len(modules) > 1:
                raise Unfit(f"{name} is defined in {', '.join(map(self.short, modules))}: expected one place")
            if modules:
                return modules[0], definition(self.tree(modules[0]), name)
        where = self.short(hints[0]) if hints else "the checkout"
        raise Unfit(f"{where}: expected a definition of {' or '.join(names)}, there is none")


def definition(tree, name):
    return next((n for n in _top(tree.body) if isinstance(n, _DEFINITIONS) and n.name == name), None)


def _top(body):
    """Statements that run when the module is imported, inside of if and try too; not what only a type checker sees."""
    for node in body:
        if isinstance(node, ast.If):
            if "TYPE_CHECKING" not in ast.dump(node.test):
                yield from _top(node.body)
            yield from _top(node.orelse)
        elif isinstance(node, ast.Try):
            yield from _top(node.body)
            for handler in node.handlers:
                yield from _top(handler.body)
            yield from _top(node.orelse)
        else:
            yield node


class _Namespace(dict):
    """The globals of one module of a World: a name that is missing is looked up when it is first used."""

    def __init__(self, world, module):
        super().__init__()
        self.world, self.module = world, module
        self["__name__"] = f"{world.prefix}.{module}"
        self["__builtins__"] = world.builtins
        self["__annotations__"] = {}
        sys.modules[self["__name__"]] = _Registered(self)  # dataclasses and typing look there

    def __missing__(self, name):
        if name in self.world.builtins:
            raise KeyError(name)  # Python looks there next
        value = self.world.resolve(self.module, name)
        self[name] = value
        return value


class _Registered:
    def __init__(self, namespace):
        object.__setattr__(self, "_namespace", namespace)

    def __getattribute__(self, name):
        namespace = object.__getattribute__(self, "_namespace")
        if name == "__dict__":
            return namespace
        try:
            return namespace[name]
        except KeyError:
            raise AttributeError(name) from None


class _Imported:
    """What `from module import ..` inside of a function takes its names from."""

    def __init__(self, world, module):
        self._world, self._module = world, module

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = self._world._from(self._module, name)
        setattr(self, name, value)
        return value


class World:
    """See the head of the file. standins: by name, whatever the module; modules: of other packages, by dotted name."""

    def __init__(self, checkout, standins=None, modules=None):
        global _worlds
        _worlds += 1
        self.prefix = f"a2asim_world_{_worlds}"
        self.checkout = checkout
        self.standins = dict(standins or {})
        if "get_global_server_args" in self.standins:  # its later name
            self.standins.setdefault("get_server_args", self.standins["get_global_server_args"])
        self.modules = {"typing_extensions": typing, **(modules or {})}
        self.namespaces = {}
        self.imports = {}
        self.imported = {}
        self.executed = {}  # (module, name): what of the checkout ran, for the report
        self.builtins = dict(vars(builtins))
        self.builtins["__import__"] = self._import

    # --- names
    def namespace(self, module):
        if module not in self.namespaces:
            self.namespaces[module] = _Namespace(self, module)
        return self.namespaces[module]

    def get(self, module, name):
        """A name of a module, as `from module import name` gives it."""
        space = self.namespace(module)
        return space[name]

    def resolve(self, module, name):
        if name in self.standins:
            return self.standins[name]
        for node in _top(self.checkout.tree(module).body):
            if isinstance(node, _DEFINITIONS) and node.name == name:
                return self.execute(module, node)
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and any(getattr(t, "id", None) == name for t in targets):
                return self._execute(module, [node], name)
        source = self._imports_of(module).get(name)
        if source is not None:
            from_module, original = source
            return self._module(from_module) if original is None else self._from(from_module, original)
        for starred in self._imports_of(module).get("*", []):
            if self._defines(starred, name):
                return self.get(starred, name)
        if self.checkout.file_of(f"{module}.{name}"):
            return self._module(f"{module}.{name}")
        return Unknown(f"{module}.{name}")

    def _defines(self, module, name):
        if not self.checkout.file_of(module):
            return False
        for node in _top(self.checkout.tree(module).body):
            if getattr(node, "name", None) == name or any(
                getattr(t, "id", None) == name for t in getattr(node, "targets", [])
            ):
                return True
        table = self._imports_of(module)
        return name in table or any(self._defines(starred, name) for starred in table.get("*", []))

    def _imports_of(self, module):
        if module in self.imports:
            return self.imports[module]
        table = self.imports[module] = {}
        path = self.checkout.file_of(module)
        package = module if path is not None and path.name == "__init__.py" else module.rpartition(".")[0]
        for node in _top(self.checkout.tree(module).body):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    target = alias.name if alias.asname else alias.name.partition(".")[0]
                    table[alias.asname or target] = (target, None)
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                if node.level:
                    parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                    base = ".".join(parents + ([base] if base else []))
                for alias in node.names:
                    if alias.name == "*":
                        table.setdefault("*", []).append(base)
                    else:
                        table[alias.asname or alias.name] = (base, alias.name)
        return table

    def _module(self, name):
        if name in self.modules:
            return self.modules[name]
        top = name.partition(".")[0]
        if top == "sglang":
            return _Registered(self.namespace(name))
        if top in sys.stdlib_module_names:
            builtins.__import__(name)
            return sys.modules[name]
        parent, _, last = name.rpartition(".")
        return getattr(self._module(parent), last) if parent else Unknown(name)

    def _from(self, module, name):
        if module.partition(".")[0] == "sglang":
            return self.get(module, name)
        if name in self.standins:
            return self.standins[name]
        if module in sys.stdlib_module_names or module.partition(".")[0] in sys.stdlib_module_names:
            self._module(module)
            if not hasattr(sys.modules[module], name):
                builtins.__import__(f"{module}.{name}")
        return getattr(self._module(module), name)

    def _import(self, name, globals=None, locals=None, fromlist=(), level=0):
        """`__import__` for text of the checkout: imports inside of its functions come here."""
        if level:
            package = (globals or {}).get("__name__", "").partition(".")[2]
            path = self.checkout.file_of(package)
            parts = package.split(".")
            parts = parts[: len(parts) - level + (1 if path is not None and path.name == "__init__.py" else 0)]
            name = ".".join(parts + ([name] if name else []))
        if not fromlist:
            return self._module(name.partition(".")[0])
        if name not in self.imported:
            self.imported[name] = _Imported(self, name)
        return self.imported[name]

    # --- running text
    def execute(self, module, node):
        """Defines one function or class of a module, unchanged."""
        self.executed[(module, node.name)] = True
        return self._execute(module, [node], node.name)

    def method(self, module, class_node, names):
        """A method of a class as a plain function; the first of `names` that there is."""
        node = method_node(self.checkout, module, class_node, names)
        self.executed[(module, f"{class_node.name}.{node.name}")] = True
        space = {}
        self._run(module, [node], space)
        return space[node.name]

    def function(self, module, name, parameters, body, result):
        """Statements of the checkout as a function of their own: `result` is an expression that it returns."""
        arguments = ast.arguments(
            posonlyargs=[], args=[ast.arg(arg=p) for p in parameters], kwonlyargs=[], kw_defaults=[], defaults=[]
        )
        returned = ast.Return(value=ast.parse(result, mode="eval").body)
        node = ast.FunctionDef(name=name, args=arguments, body=[*body, returned], decorator_list=[], type_params=[])
        space = {}
        self._run(module, [ast.fix_missing_locations(node)], space)
        return space[name]

    def _execute(self, module, nodes, name):
        space = self.namespace(module)
        self._run(module, nodes, space)
        return space[name]

    def _run(self, module, nodes, target):
        space = self.namespace(module)
        # Nothing that runs depends on annotations, but for what a decorator makes of a class in a module that evaluates them.
        decorated = any(isinstance(n, ast.ClassDef) and n.decorator_list for n in nodes)
        evaluates = decorated and not _postpones(self.checkout.tree(module))
        for name in _needed_at_once(nodes, evaluates):
            if name not in space and name not in self.builtins:
                space[name]  # class bodies do not ask __missing__
        where = str(self.checkout.file_of(module))
        flags = 0 if evaluates else _ANNOTATIONS
        code = compile(ast.Module(body=nodes, type_ignores=[]), where, "exec", flags=flags, dont_inherit=True)
        exec(code, space, target if target is not space else None)


def method_node(checkout, module, class_node, names):
    for name in names:
        for node in class_node.body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return node
    raise Unfit(f"{checkout.short(module)}: class {class_node.name}: expected a method {' or '.join(names)}, there is none")


def _postpones(tree):
    return any(
        isinstance(node, ast.ImportFrom) and node.module == "__future__" and any(a.name == "annotations" for a in node.names)
        for node in tree.body
    )


def _needed_at_once(nodes, with_annotations):
    """Names that a definition needs while it is made: all but those inside of functions."""
    names = set()

    def visit(node, in_class):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            outside = [*getattr(node, "decorator_list", []), *node.args.defaults, *filter(None, node.args.kw_defaults)]
            if with_annotations:
                outside += [a.annotation for a in ast.walk(node.args) if isinstance(a, ast.arg) and a.annotation]
                outside += filter(None, [getattr(node, "returns", None)])
            for part in outside:
                visit(part, in_class)
            return
        if isinstance(node, ast.AnnAssign) and in_class:
            visit(node.annotation, in_class)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            names.add(node.id)
        inside = in_class or isinstance(node, ast.ClassDef)
        for child in ast.iter_child_nodes(node):
            visit(child, inside)

    for node in nodes:
        visit(node, False)
    return sorted(names)
