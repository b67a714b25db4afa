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
    return any(said.startswith("yes") for said in signs(facts).values())


def hypervisor(facts: Facts) -> Check:
    """Whether the signs of a virtual machine agree; a hypervisor that hides itself makes them disagree."""
    found = signs(facts)
    yes = [
        f"{sign} ({said[5:]})" if len(said) > 3 else sign for sign, said in found.items() if said[:3] == "yes"
    ]
    no = [sign for sign, said in found.items() if said[:2] == "no"]
    if not found:
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
