"""What a package imports to add a command that is a question: its fields are options, its answer blocks."""

from __future__ import annotations

from assay.questions.question import Answer, Question, Reads, argument, option, question
from assay.view.blocks import Block, Doubts, Fold, Heading, Lead, Paragraph, Table, TableBody, TableRow

__all__ = [
    "Answer",
    "Block",
    "Doubts",
    "Fold",
    "Heading",
    "Lead",
    "Paragraph",
    "Question",
    "Reads",
    "Table",
    "TableBody",
    "TableRow",
    "argument",
    "option",
    "question",
]
