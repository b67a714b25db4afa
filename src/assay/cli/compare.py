"""`assay compare`."""

from __future__ import annotations

from assay.cli.question_command import command_of
from assay.questions.compare import Compare

command = command_of(Compare)
