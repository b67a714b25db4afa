"""Whether this machine is virtual, by every available sign: a hypervisor may hide some of them."""

from __future__ import annotations

from assay.checks.check import Check, Facts


def signs(facts: Facts) -> dict[str, str]:
    """Sign → `yes`, with what it names, or `no`."""
    return {
        name.removeprefix("virtual."): str(value)
        for name, value in facts.items()
        if name.startswith("virtual.")
    }


def is_virtual(facts: Facts) -> bool:
    """Whether any sign indicates a virtual machine."""
    return any(answer.startswith("yes") for answer in signs(facts).values())


def hypervisor(facts: Facts) -> Check:
    """Whether the signs of a virtual machine agree; a hypervisor that hides itself makes them disagree."""
    answers = signs(facts)
    yes = [
        f"{sign} ({answer[5:]})" if len(answer) > 3 else sign
        for sign, answer in answers.items()
        if answer[:3] == "yes"
    ]
    no = [sign for sign, answer in answers.items() if answer[:2] == "no"]
    if not answers:
        return Check("hypervisor", "unknown", "no sign either way in DMI, cpuinfo, or systemd-detect-virt")
    if yes and no:
        evidence = f"virtual by {', '.join(yes)}; not by {', '.join(no)}: the hypervisor hides itself"
        remedy = (
            "programs that check the hidden sign assume bare metal; drivers since 465 don't need it hidden: "
            "openstack flavor unset --property hw:hide_hypervisor_id FLAVOR"
        )
        return Check("hypervisor", "warn", evidence, remedy)
    if yes:
        return Check("hypervisor", "ok", f"virtual by {', '.join(yes)}")
    return Check("hypervisor", "ok", f"bare metal by {', '.join(no)}")
