"""The JSON schema of params.yaml, for editors. What the scales become is checked in full by `load.resolve`."""

from tdjepa.config.params import Params


def schema() -> dict:
    """The base must be complete. A scale, or a method that is `like` another, may hold any part of it."""
    full = Params.model_json_schema()
    del full["properties"]["part"], full["$defs"]["Part"]  # of the command line
    sections = [key for key in full["properties"] if key != "scale"]
    overlay = {
        "type": ["object", "null"],
        "properties": {"like": {"type": "string"}} | dict.fromkeys(sections, {}),
        "additionalProperties": False,
    }
    full["properties"]["scales"] = {"type": "object", "additionalProperties": overlay, "minProperties": 1}
    full["properties"]["overlays"] = {"type": "object", "additionalProperties": overlay}
    full["required"] = [*full["required"], "scales"]
    heir = {"type": "object", "properties": {"like": {"type": "string"}}, "required": ["like"]}
    named = full["properties"]["methods"]["patternProperties"]
    full["properties"]["methods"]["patternProperties"] = {k: {"anyOf": [whole, heir]} for k, whole in named.items()}
    full["title"] = "params.yaml"
    full["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return without_defaults(full)


def without_defaults(part):
    """Snakemake writes the defaults of a schema into whatever it validates, and stumbles over a term that is left empty."""
    if isinstance(part, dict):
        return {key: without_defaults(value) for key, value in part.items() if key != "default"}
    return [without_defaults(value) for value in part] if isinstance(part, list) else part
