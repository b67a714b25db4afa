"""Whether this machine is virtual, by every sign there is: a hypervisor hides some of them."""

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
    """Whether any sign says so."""
    return any(said.startswith("yes") for said in signs(facts).values())


def hypervisor(facts: Facts) -> Check:
    """Whether the signs of a virtual machine agree; a hypervisor that hides shows in their disagreement."""
    found = signs(facts)
    yes = [
        f"{sign} ({said[5:]})" if len(said) > 3 else sign for sign, said in found.items() if said[:3] == "yes"
    ]
    no = [sign for sign, said in found.items() if said[:2] == "no"]
    if not found:
        return Check("hypervisor", "unknown", "no sign tells: neither DMI, cpuinfo nor systemd-detect-virt")
    if yes and no:
        evidence = f"virtual by {', '.join(yes)}; not by {', '.join(no)}: the hypervisor hides"
        remedy = (
            "programs that ask the hidden sign take it for bare metal; drivers since 465 need no hiding: "
            "openstack flavor unset --property hw:hide_hypervisor_id FLAVOR"
        )
        return Check("hypervisor", "warn", evidence, remedy)
    if yes:
        return Check("hypervisor", "ok", f"virtual by {', '.join(yes)}")
    return Check("hypervisor", "ok", f"bare metal by {', '.join(no)}")
