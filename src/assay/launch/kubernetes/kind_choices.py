"""The job kind chosen for each shape of one launcher; assumed until the cluster has been queried."""

from __future__ import annotations

from assay.errors import InputError
from assay.launch.kubernetes.choose import choose
from assay.launch.kubernetes.client import Cluster
from assay.launch.kubernetes.creatable_kinds import CreatableKinds
from assay.launch.kubernetes.kinds import JobKind
from assay.launch.kubernetes.refusals import ApiError, ApiUnreachableError
from assay.records import Shape


class KindChoices:
    """wanted: the option `kind`."""

    def __init__(self, setting: str) -> None:
        self.setting = setting
        self._asked: dict[Shape, tuple[JobKind, str]] = {}

    def kind(self, shape: Shape) -> JobKind:
        """The kind that a job of this shape is sent as."""
        return (self._asked.get(shape) or choose(self.setting, shape))[0]

    def ask(self, shape: Shape, cluster: Cluster) -> str:
        """Let the cluster decide, for `auto`. Returns its choice and the reason, once for each answer.

        If the cluster does not say what it offers, or says that it offers nothing, the kinds that every
        cluster offers are assumed; its refusals then carry its own words. Raises ApiUnreachableError.
        """
        if shape in self._asked:
            return ""
        known_reasons = [why for _, why in self._asked.values()]
        try:
            kind, why = choose(self.setting, shape, CreatableKinds(cluster))
        except ApiUnreachableError:
            raise
        except (ApiError, InputError) as error:
            kind, why = choose(self.setting, shape)
            why = f"{why} (assumed: {error})"
        self._asked[shape] = kind, why
        return "" if why in known_reasons else self._words(why)

    def comment(self, shape: Shape) -> str:
        """The comment above a manifest whose kind was chosen; "" if the kind was requested."""
        if self.setting != "auto":
            return ""
        if shape in self._asked:
            return f"# {self._words(self._asked[shape][1])}\n"
        choice = self._words(choose(self.setting, shape)[1])
        return f"# {choice} (assumed: what every cluster offers; this one was not queried)\n"

    @staticmethod
    def _words(why: str) -> str:
        return f"kind: auto selects {why}"
