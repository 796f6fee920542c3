"""From the arguments of a verb to one call of the function that does its work.

The function says by the names of its parameters what it needs: `p` (the parameters of the scale), `cfg` (the slice of this
job: --slice, or cut out of params.yaml), `scale` (None beside --slice), `runtime`, a file (as given, or in its usual place), or
the value of an option. Heavy imports happen here and below, so that `tdjepa --help` stays instant.
"""

import importlib
import inspect
import json
from pathlib import Path
from typing import get_type_hints

from tdjepa.base.errors import UserError
from tdjepa.steps.paths import path
from tdjepa.steps.registry import FILES, Step


class Call:
    """One call of a verb. Everything is looked up when it is asked for: a verb loads only what it needs."""

    def __init__(self, args):
        self.args, self.verb = args, args.verb
        self._p = self._cfg = None

    @property
    def p(self):
        if self._p is None:
            from tdjepa.config.load import load
            from tdjepa.config.part import WORDS, choose

            words = {word: said for word in WORDS if (said := getattr(self.args, word, None)) is not None}
            self._p = choose(load(self.args.params, self.args.scale), words, "--")
            self._check_names()
        return self._p

    @property
    def scale(self) -> str | None:
        """None beside --slice, which has no usual places."""
        return None if getattr(self.args, "slice", None) else self.p.scale

    @property
    def cfg(self):
        """The job's parameters: from --slice if given, else cut out of params.yaml."""
        if self._cfg is None:
            from tdjepa.config import parse, slices

            cut = getattr(slices, f"{self.verb.slice or self.verb.name}_slice")
            if self.args.slice:
                try:
                    raw = json.loads(self.args.slice)
                except ValueError as error:
                    raise UserError(f"--slice: not JSON ({error})") from None
                self._cfg = parse.parse(get_type_hints(cut)["return"], raw, "--slice")
            else:
                self._cfg = self._with_names(cut)
        return self._cfg

    @property
    def runtime(self):
        """`runtime` of params.yaml, with the options over it."""
        from tdjepa.config.parse import parse
        from tdjepa.config.records.model import Runtime

        asked = {name: getattr(self.args, name, None) for name in Runtime.model_fields}
        usual = (self.p.runtime if self.scale else Runtime()).model_dump()
        return parse(Runtime, usual | {name: value for name, value in asked.items() if value is not None}, "--")

    def file(self, kind: str, option: str = "", **names) -> Path:
        """The file that an option names, or the one of that kind in its usual place."""
        option = option or (FILES[kind].name if kind in FILES else "out")
        if (given := getattr(self.args, option, None)) is not None:
            return given
        if self.scale is None:
            raise UserError(f"--{option}: needed beside --slice")
        return Path(path(kind, **{**self._place(), "scale": self.scale, **names}))

    def run(self, verbs) -> int | None:
        """Call the verb's function and show the facts that it returns."""
        name = self.verb.name
        function = getattr(verbs, f"{name}_" if name == "import" else name, None)
        if function is None:
            module, _, called = self.verb.module.partition(":")
            function = getattr(importlib.import_module(module), called or "run")
        found = self._with_names(function)
        if isinstance(found, dict):
            wanted = getattr(self.verb, "shown", ()) or found
            facts = {name: found[name] for name in wanted if name in found}
            if "out" in inspect.signature(function).parameters and "file" not in facts:
                facts["file"] = self["out"]
            show(facts)
            return None
        return found

    def _with_names(self, function):
        """Call it with what its parameters are called."""
        wanted = inspect.signature(function).parameters.values()
        return function(**{w.name: self[w.name] for w in wanted if w.default is w.empty or self._has(w.name)})

    def _has(self, name: str) -> bool:
        return hasattr(self.args, name) or name in ("p", "cfg", "scale", "runtime")

    def __getitem__(self, name: str):
        if name == "call":
            return self
        name = name.removesuffix("_file")  # where a module of the same name is imported: split_file
        if name in ("p", "cfg", "scale", "runtime"):
            return getattr(self, name)
        if name == "out" and isinstance(self.verb, Step):
            return self.file(self.verb.out or self.verb.gives[0].split("/")[0], "out")
        kinds = {FILES[kind].name: kind for kind in self.verb.takes if kind in FILES}
        return self.file(kinds[name]) if name in kinds else getattr(self.args, name)

    def _place(self) -> dict:
        """What fills the templates of the paths: from the slice, which may name other things than the options."""
        if getattr(self.verb, "per", "") == "scale" or not (self.verb.slice or isinstance(self.verb, Step)):
            return vars(self.args)
        place = {name: getattr(self.cfg, name, None) for name in ("env", "seed")}
        place |= {"method": getattr(self.cfg, "method_name", None), "epoch": getattr(self.cfg, "last_epoch", None)}
        place |= {name: getattr(self.args, name, "") for name in ("sweep", "part")}
        return place | ({"manifest": self.cfg.evaluate.manifest} if hasattr(self.cfg, "evaluate") else {})

    def _check_names(self) -> None:
        """Names that become folders are checked against the parameters first."""
        from tdjepa.config.records.base import ENVS
        from tdjepa.config.records.keys import meant

        args, methods = self.args, tuple(self._p.methods)
        if self.verb.name == "evaluate":
            methods += ("floors",)  # nobody trains the floors
        envs = getattr(args, "env", None)
        for env in [envs] if isinstance(envs, str) else envs or ():
            if env not in ENVS:
                raise UserError(f"--env {env}: must be one of {', '.join(ENVS)}{meant(env, ENVS)}")
        if getattr(args, "method", None) is not None and args.method not in methods:
            near = meant(args.method, methods)
            raise UserError(f"--method {args.method}: not among methods: {', '.join(methods)}{near}")
        if hasattr(args, "seed") and (args.seed is None or args.method == "floors"):
            args.seed = 0 if args.method == "floors" else self._p.train_seeds[0]


def show(facts: dict) -> None:
    """The short table at the end of a verb."""
    width = max(map(len, facts))
    for name, found in facts.items():
        print(f"  {name:<{width}}  {f'{found:.4g}' if isinstance(found, float) else found}")
