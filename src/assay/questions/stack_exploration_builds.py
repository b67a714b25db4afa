"""The stacks of an exploration, built once each: environments by uv or images by an engine, and removed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import InputError
from assay.run.stopping import terminable
from assay.stacks.exploring.search import INCUMBENT

if TYPE_CHECKING:
    from assay.records import Scalar
    from assay.stacks.exploring.environments import (
        BuildFailure,
        Environment,
        EnvironmentRecipe,
        ImageRecipe,
        StackImage,
    )
    from assay.stacks.exploring.search import Space, StackChoice
    from assay.stacks.exploring.spec import Spec
    from assay.stacks.storage import Journal


@dataclass
class StackBuilder:
    """Builds stacks and notes each in the journal; what was noted is not built twice.

    choices, places  of the stacks that can be built, by their names
    """

    spec: Spec
    space: Space
    runs_dir: Path
    folder: Path
    journal: Journal
    say: Callable[[str], None]
    choices: dict[str, StackChoice] = field(default_factory=dict)
    places: dict[str, Environment | StackImage] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Choose what builds: a Workshop or an ImageWorkshop, each of recipes of its own kind."""
        self._workshop: Any = _workshop(self.spec, self.folder)

    @terminable()
    def make_incumbent(self) -> None:
        """Build it. Raises InputError, with the reason, if it can't be built."""
        from assay.stacks.exploring.environments import BuildFailure

        recipe = self._recipe(self.space.incumbent)
        place = self._workshop.locked(recipe)
        failure = place if isinstance(place, BuildFailure) else None
        if not isinstance(place, BuildFailure):
            self.say(f"{INCUMBENT}: {self.space.incumbent}")
            failure = self._workshop.build(recipe, place)
            self.choices[INCUMBENT], self.places[INCUMBENT] = self.space.incumbent, place
        if failure is not None:
            reason = failure.log.read_text().strip()
            raise InputError(
                f"{reason}\n{self.spec.where('incumbent')}: the incumbent {failure.kind}: see above"
            )

    @terminable()
    def make(self, name: str, choice: StackChoice, left: int, *, needed: bool) -> Mapping[str, Any]:
        """The journal's line of a candidate, which is built if it is needed.

        left    builds of the batch from this one on
        needed  more trials of it will run; one that was not tried before is built anyway
        """
        from assay.stacks.exploring.environments import BuildFailure

        done = next((line for line in self.journal.entries("made") if line["name"] == name), None)
        if done is not None and (done["same_as"] or done["failure"]):
            return done
        recipe = self._recipe(choice)
        began = time.monotonic()
        place = self._workshop.locked(recipe)
        same_as = "" if isinstance(place, BuildFailure) else self._same_as(name, choice, place)
        failure = place if isinstance(place, BuildFailure) else None
        if not isinstance(place, BuildFailure) and not same_as:
            self.choices[name], self.places[name] = choice, place
            if done is None or needed:
                self.say(f"{name}: {choice}: building{self._time_left(left)}")
                failure = self._workshop.build(recipe, place)
        if done is not None:
            return done
        if failure is not None and not failure.is_the_indexs:
            self._record(name, choice, recipe, place, failure)
        self.journal.add(
            "made",
            name=name,
            seconds=time.monotonic() - began,
            same_as=same_as,
            failure=None if failure is None else failure.kind,
            why="" if failure is None else failure.why,
            log="" if failure is None else str(failure.log),
        )
        return self.journal.lines[-1]

    def lock_of(self, name: str) -> str:
        """The path of a stack's lock; "" if it has none of its own."""
        place = self.places.get(name)
        return "" if place is None else str(place.lock)

    def system(self, name: str) -> dict[str, Any]:
        """The system that runs trials of a stack, as systems.yaml has it."""
        env = self._variables(self.choices[name])
        return {**options_of(self.spec), **self.places[name].options, "env": env}

    def remove(self, names: Iterable[str], in_use: Iterable[str]) -> None:
        """Free the space of stacks, except what those in use share with them."""
        kept = {self.places[name].key for name in in_use if name in self.places}
        for name in names:
            if self.places[name].key not in kept:
                self._workshop.remove(self.places[name])

    def remove_all(self) -> None:
        """Free the space of all stacks."""
        self.remove(self.places, ())

    def _time_left(self, left: int) -> str:
        """How long this many builds may take, by those so far; "" before the first has ended."""
        from assay.units import counted, human_seconds

        took = [line["seconds"] for line in self.journal.entries("made") if not line["same_as"]]
        if not took:
            return ""
        time_left = human_seconds(left * sum(took) / len(took))
        return f", about {time_left} for {counted(left, 'build')}"

    def _same_as(self, name: str, choice: StackChoice, place: Environment | StackImage) -> str:
        """The incumbent or an earlier candidate with the same contents and variables; "" if none."""
        variables = self._variables(choice)
        for other, own in self.places.items():
            if other != name and own.key == place.key and self._variables(self.choices[other]) == variables:
                return other
        return ""

    def _recipe(self, choice: StackChoice) -> EnvironmentRecipe | ImageRecipe:
        from assay.stacks.exploring.dimensions import recipe_of

        return recipe_of(self.spec, self.space, choice)

    def _variables(self, choice: StackChoice) -> dict[str, str]:
        from assay.stacks.exploring.dimensions import variables_of

        return variables_of(self.spec, self.space, choice)

    def _record(
        self,
        name: str,
        choice: StackChoice,
        recipe: EnvironmentRecipe | ImageRecipe,
        place: Environment | StackImage | BuildFailure,
        failure: BuildFailure,
    ) -> None:
        """Keep a build's failure where all observations of stacks are read from."""
        from assay.questions.stack_hardware import hardware_here, provenance_here
        from assay.records import Observation, Stack
        from assay.stacks.exploring.environments import BuildFailure, ImageRecipe
        from assay.stacks.stack import stack_of
        from assay.stacks.storage import record_failure

        packages = {} if isinstance(place, BuildFailure) else place.packages
        packages = packages or dict(pin.split("==", 1) for pin in recipe.pins)
        system: dict[str, Scalar] = {}
        if not isinstance(recipe, ImageRecipe) and (
            here := stack_of(provenance_here(recipe.interpreter.path))
        ):
            system = dict(here.system)
        settings = {f"env.{key}": value for key, value in self._variables(choice).items()}
        stack = Stack(system, packages, settings=settings)
        session = f"{self.spec.name}/{name}"
        record_failure(
            self.runs_dir,
            Observation(
                stack,
                hardware_here(),
                None,
                None,
                session,
                time.time(),
                failure=failure.kind,
                why=failure.why,
                log=str(failure.log),
            ),
        )


def options_of(spec: Spec) -> dict[str, Any]:
    """The launcher of all stacks, and its options."""
    return {**spec.content.options, "launcher": spec.content.launcher}


def _workshop(spec: Spec, folder: Path) -> Any:
    from assay.stacks.engines import ENGINES
    from assay.stacks.exploring.environments import ImageWorkshop, Workshop
    from assay.stacks.exploring.spec import image_option

    content = spec.content
    if not content.in_images:
        return Workshop(folder, content.build_timeout)
    return ImageWorkshop(
        folder,
        content.build_timeout,
        ENGINES[content.images.engine],
        tuple(content.images.build_options),
        image_option(content.launcher) or "image",
    )
