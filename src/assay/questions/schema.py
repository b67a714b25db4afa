"""JSON Schemas of the user's files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, Literal

from assay.errors import InputError
from assay.questions.question import Answer, Question, argument, function, question
from assay.registry import imported

File = Literal["suite", "systems", "template"]
PARTS: Final = "assay.cluster.components:PARTS"  # of a prepared cluster


@question
class Schema(Question):
    """Print the JSON Schema of suite.yaml, systems.yaml or a template of `assay data submit`, for an editor.

    \b
    Examples:
      assay schema suite > suite.schema.json
      assay schema systems > systems.schema.json
      assay schema template > template.schema.json
    then, as the first line of the file, for editors with the YAML language server:
      # yaml-language-server: $schema=suite.schema.json
    """

    file: File = argument()

    def answer(self) -> FileSchema:
        """The schema."""
        return FileSchema(self.schema())

    def schema(self) -> dict[str, Any]:
        """The JSON Schema. Raises InputError for the name of another file."""
        from assay.launch import SYSTEM_MODELS
        from assay.suite.schema import suite_schema, systems_schema, template_schema
        from assay.workloads import WORKLOADS

        if self.file not in ("suite", "systems", "template"):
            raise InputError(f"found {self.file!r}; expected suite, systems or template")
        if self.file == "template":
            return template_schema()
        if self.file == "systems":
            return systems_schema(dict(SYSTEM_MODELS.items()), imported(PARTS))
        models = {name: workload.params for name, workload in WORKLOADS.items()}
        return suite_schema(models, {name: workload.about for name, workload in WORKLOADS.items()})

    def write(self, answer: FileSchema) -> bytes:
        """The schema as JSON."""
        return json.dumps(answer.document(), indent=2, ensure_ascii=False).encode() + b"\n"


schema = function(Schema, Schema.schema)


@dataclass(frozen=True)
class FileSchema(Answer):
    """A JSON Schema."""

    content: dict[str, Any]

    def document(self) -> dict[str, Any]:
        """The schema itself."""
        return self.content
