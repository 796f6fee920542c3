"""Import the reference library, and torchvision beside a CPU-only torch.

The torchvision wheel of the ordinary registry is built for CUDA. Beside a CPU torch its compiled part does not load, and its
import fails while it registers shapes for two operators that then do not exist. timm and stable-worldmodel import torchvision
but call neither operator, so declaring their signatures is enough. A torchvision that loads by itself is not touched.
"""

import importlib
import importlib.util
import sys
import warnings

_library = None  # the declarations live as long as this object


def library(module: str = ""):
    """stable_worldmodel, or one of its modules. That takes seconds, so only code that compares with it does so."""
    ensure()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # optional environments that are not installed
        return importlib.import_module(f"stable_worldmodel.{module}".rstrip("."))


def ensure() -> None:
    """Call before the first import of timm, the reference of benchmarks and tests."""
    global _library
    if "torchvision" in sys.modules or importlib.util.find_spec("torchvision") is None:
        return
    try:
        importlib.import_module("torchvision")
        return
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
    import torch

    for name in [n for n in sys.modules if n == "torchvision" or n.startswith("torchvision.")]:
        del sys.modules[name]  # the half-imported package
    _library = torch.library.Library("torchvision", "FRAGMENT")
    for operator in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, operator):
            _library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    importlib.import_module("torchvision")
