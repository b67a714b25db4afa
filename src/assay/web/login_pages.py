"""Signing in with a token, and out."""

from __future__ import annotations

import time
from typing import Any

from litestar import Response, get, post
from litestar.concurrency import sync_to_thread
from litestar.datastructures import Cookie

from assay.web.access import ASKING, SIGNED_IN_S, Access, AccessRules, Audit, signed
from assay.web.acting import AnyRequest, address_of
from assay.web.rendering import page
from assay.web.tokens import holder


@get("/login", include_in_schema=False)
async def login(request: AnyRequest) -> Response[str]:
    """The form."""
    return _form(200, request.query_params.get("next", "/"))


@post("/login", include_in_schema=False, status_code=200)
async def sign_in(request: AnyRequest, rules: AccessRules, audit: Audit, gate: Access) -> Response[Any]:
    """A cookie for who has a token, and back to the page that was asked for."""
    form = await request.form()
    client = address_of(request)
    following = str(form.get("next", "/"))
    if not gate.may_try(client):
        return _form(429, following, "Too many wrong tokens; wait a minute.")
    token = holder(rules.tokens, str(form.get("token", "")).strip())
    if token is None:
        await sync_to_thread(gate.failed, client, "a wrong token in the form")
        return _form(403, following, "This server does not know this token.")
    await sync_to_thread(audit.note, token.name, client, "sign in", "done", role=token.role)
    value = signed(token, int(time.time()) + SIGNED_IN_S)
    return _redirect(_address_of_this_site(following), [_cookie(rules, value, SIGNED_IN_S)])


@post("/logout", include_in_schema=False, status_code=200)
async def sign_out(request: AnyRequest, rules: AccessRules, audit: Audit, gate: Access) -> Response[Any]:
    """Without the cookie, which is worth nothing from now on, to the first page."""
    if (who := ASKING.get()) is not None:
        client = address_of(request)
        await sync_to_thread(audit.note, who.name, client, "sign out", "done", role=who.role)
    await sync_to_thread(gate.sign_out, request.headers.get("cookie", ""))
    return _redirect("/", [_cookie(rules, "", 0)] if rules.tokens else [])


def _form(status: int, following: str, problem: str = "") -> Response[str]:
    who = ASKING.get()
    return page(
        "login.html",
        status=status,
        title="Sign in",
        next=_address_of_this_site(following),
        problem=problem,
        signed_in=who,
    )


def _address_of_this_site(following: str) -> str:
    """An address of this site: what another site put there is not followed."""
    is_own = following.startswith("/") and not following.startswith(("//", "/\\")) and following.isprintable()
    return following if is_own else "/"


def _cookie(rules: AccessRules, value: str, max_age: int) -> Cookie:
    return Cookie(
        key=rules.cookie,
        value=value,
        path="/",
        max_age=max_age,
        httponly=True,
        samesite="strict",
        secure=rules.is_https,
    )


def _redirect(where: str, cookies: list[Cookie]) -> Response[Any]:
    return Response("", status_code=303, headers={"Location": where}, cookies=cookies)
