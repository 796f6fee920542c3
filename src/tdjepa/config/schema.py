"""The JSON schema of params.yaml, for editors and for Snakemake's own validation."""

from tdjepa.config.params import Params


def schema() -> dict:
    """The JSON schema of params.yaml (base and overlays), for editors and for Snakemake's own validation.

    Overlays may hold any part of the base, so there the schema only asks for known top-level keys, and a method that is
    like another may hold any part of it; the full check of the merged result is `resolve`.
    """
    full = Params.model_json_schema()
    sections = [key for key in full["properties"] if key != "scale"]
    overlay = {"type": "object", "properties": dict.fromkeys(sections, {}), "additionalProperties": False}
    full["properties"]["scales"] = {"type": "object", "additionalProperties": overlay, "minProperties": 1}
    full["required"] = [*full["required"], "scales"]
    heir = {"type": "object", "properties": {"like": {"type": "string"}}, "required": ["like"]}
    named = full["properties"]["methods"]["patternProperties"]
    full["properties"]["methods"]["patternProperties"] = {k: {"anyOf": [whole, heir]} for k, whole in named.items()}
    full["title"] = "params.yaml"
    full["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return full
