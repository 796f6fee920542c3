"""Where everything lies: one place that knows the folders, used by the command line, the Snakefile and the docs."""

from pathlib import PurePosixPath as Path


def episodes(scale: str, env: str) -> Path:
    return Path("data", scale, "episodes", env, "episodes.h5")


def mined(scale: str, env: str, name: str) -> Path:
    """split.json, validation.json, test.json (manifests) or pairs.parquet."""
    return Path("data", scale, "mined", env, name)


def training(scale: str, env: str, method: str, seed: int | str) -> Path:
    return Path("results", scale, "train", env, method, str(seed))


def checkpoint(scale: str, env: str, method: str, seed: int | str, epoch: int) -> Path:
    return training(scale, env, method, seed) / f"epoch_{epoch:02d}.safetensors"


def rows(scale: str, env: str, method: str, seed: int | str = "") -> Path:
    """Evaluation rows; the floors (random, zero, replay) have no training seed and share one file, `floors`; what the planner
    reaches with the true simulator is in `ceiling`."""
    return Path("results", scale, "rows", env, f"{method}_{seed}.parquet" if seed != "" else f"{method}.parquet")


def floors(scale: str, env: str) -> Path:
    """Rows of the floors on all test pairs: about the environment, not for the report, which compares on fewer."""
    return Path("results", scale, "floors", f"{env}.parquet")


def sweep(scale: str, name: str, env: str, method: str, seed: int | str) -> Path:
    """Rows of other planner settings (evaluate.sweeps): a folder deeper, so that nobody takes them for the protocol's."""
    return Path("results", scale, "rows", env, name, f"{method}_{seed}.parquet")


def diagnostic(scale: str, env: str, method: str, seed: int | str, name: str) -> Path:
    """pairs.parquet (alignment and calibration), aliasing.json or probe.json."""
    return Path("results", scale, "diagnostics", env, f"{method}_{seed}_{name}")


def picture(scale: str, env: str, method: str, seed: int | str, name: str) -> Path:
    """d_psi_0.gif (planned episodes: cost and pair), landscape.pdf and .png."""
    return Path("results", scale, "pictures", env, f"{method}_{seed}_{name}")


def evidence(scale: str, name: str = "stats.json") -> Path:
    return Path("results", scale, "evidence", name)


def report(scale: str, name: str = "") -> Path:
    """tables/, figures/, numbers.tex, summary.md."""
    return Path("results", scale, "report", name)


def log(scale: str, name: str) -> Path:
    """What a job said."""
    return Path("results", scale, "logs", f"{name}.log")


def benchmarks(scale: str) -> Path:
    """What Snakemake measured of each job."""
    return Path("results", scale, "benchmarks")


def recipes(scale: str, name: str) -> Path:
    """success_over_cpu.pdf and .png of `tdjepa recipes`: measured times, so no part of the report."""
    return Path("results", scale, "recipes", name)


def paper(scale: str) -> Path:
    return Path("results", scale, "paper.pdf")


def page(scale: str) -> Path:
    return Path("results", scale, "page", "index.html")
