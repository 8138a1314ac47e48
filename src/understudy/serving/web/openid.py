"""Signing in with OpenID Connect: the provider says who somebody is, and the server's own database what they may do.

The authorization code flow with PKCE (RFC 7636), a nonce and a state. What begins a sign-in is kept in a cookie of its
own for ten minutes, so any web process can end it. The identity token must be signed with a key that the provider
publishes, by an asymmetric algorithm: a token signed with a public key as if it were a password, or not signed at all,
is refused. The provider gives no role: a person has the role and the project that a steward gave them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import secrets
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any, cast

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from understudy.errors import InputError, MissingExtraError
from understudy.serving.database.people import open_session_of
from understudy.serving.fetching import opened
from understudy.serving.settings import OpenId, openid_secret, safe_address
from understudy.serving.web.forms import same
from understudy.serving.web.signing_in import cookie
from understudy.serving.web.site import Site

BEGIN, BACK = "/sign-in/openid", "/sign-in/openid/back"
COOKIE = "understudy-openid"
MINUTES = 10
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
MOST_BYTES = 256 * 1024  # of an answer of the provider
SECONDS = 10.0  # to wait for the provider
KEPT_SECONDS = 3600.0  # how long the provider's addresses and keys are kept
CLOCKS = 60  # seconds by which two clocks may differ
LONGEST = 4096  # letters of a parameter that comes back


class SignInError(InputError):
    """The provider's answer does not prove who somebody is."""


class Provider:
    """What the provider publishes about itself, and the exchange of a code for an identity."""

    def __init__(self, settings: OpenId, secret: str) -> None:
        self._settings = settings
        self._secret = secret
        self._lock = threading.Lock()
        self._kept: tuple[float, dict[str, Any], dict[str, Any]] | None = None

    def address(self, *, state: str, nonce: str, challenge: str, back: str) -> str:
        """Where a browser is sent to sign in."""
        where = self._published()[0]["authorization_endpoint"]
        asked = {
            "response_type": "code", "client_id": self._settings.client_id, "redirect_uri": back,
            "scope": f"openid {self._settings.scope}".strip(), "state": state, "nonce": nonce,
            "code_challenge": challenge, "code_challenge_method": "S256",
        }  # fmt: skip
        return f"{where}{'&' if '?' in where else '?'}{urllib.parse.urlencode(asked)}"

    def name(self, *, code: str, verifier: str, nonce: str, back: str) -> str:
        """The name of the person that a code stands for, from a token whose signature and claims were checked."""
        document, _ = self._published()
        form = {
            "grant_type": "authorization_code", "code": code, "redirect_uri": back, "code_verifier": verifier,
            "client_id": self._settings.client_id, "client_secret": self._secret,
        }  # fmt: skip
        answer = _fetched(document["token_endpoint"], urllib.parse.urlencode(form).encode())
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise SignInError("the provider sent no identity token.")
        try:
            claims = self._claims(token)
        except SignInError:  # the provider may have new keys
            with self._lock:
                self._kept = None
            claims = self._claims(token)
        return self._checked(claims, nonce)

    def _published(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The provider's description and keys, read again every hour."""
        with self._lock:
            if self._kept is None or time.monotonic() - self._kept[0] > KEPT_SECONDS:
                issuer = self._settings.issuer
                document = _fetched(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
                if document.get("issuer") != issuer:
                    raise SignInError("the provider calls itself otherwise than the settings do.")
                for part in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                    if not isinstance(document.get(part), str) or not safe_address(document[part]):
                        raise SignInError(f"the provider's description has no safe {part}.")
                self._kept = time.monotonic(), document, _fetched(document["jwks_uri"])
            return self._kept[1], self._kept[2]

    def _claims(self, token: str) -> Mapping[str, Any]:
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        try:
            keys = KeySet.import_key_set(cast(Any, self._published()[1]))
            return dict(jwt.decode(token, keys, algorithms=list(ALGORITHMS)).claims)
        except (JoseError, ValueError, KeyError, TypeError):
            raise SignInError("the identity token is not signed by the provider.") from None

    def _checked(self, claims: Mapping[str, Any], nonce: str) -> str:
        """OpenID Connect Core 1.0, section 3.1.3.7; the word ``nonce`` ties the token to this browser."""
        now, audience = time.time(), claims.get("aud")
        listed = audience if isinstance(audience, list) else [audience]
        own = self._settings.client_id
        if claims.get("iss") != self._settings.issuer or own not in listed:
            raise SignInError("the identity token is for another server.")
        if (len(listed) > 1 or "azp" in claims) and claims.get("azp") != own:
            raise SignInError("the identity token is for another server.")
        made, expires = _time(claims.get("iat"), math.inf), _time(claims.get("exp"), -math.inf)
        if not made - CLOCKS <= now < expires + CLOCKS:
            raise SignInError("the identity token has expired, or the clocks differ.")
        if not isinstance(claims.get("nonce"), str) or not same(claims["nonce"], nonce):
            raise SignInError("the identity token is not the answer to this sign-in.")
        name = claims.get(self._settings.claim)
        if not isinstance(name, str) or not name:
            raise SignInError(f"the identity token has no '{self._settings.claim}'.")
        return name


def _time(value: object, otherwise: float) -> float:
    """Seconds since 1970; a claim that is no number is taken as the time that lets nobody in."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else otherwise


def _fetched(address: str, body: bytes | None = None) -> dict[str, Any]:
    request = urllib.request.Request(address, data=body, headers={"Accept": "application/json"})  # noqa: S310 (checked)
    try:
        with opened(request, SECONDS) as answer:
            text = answer.read(MOST_BYTES + 1)
        found = json.loads(text) if len(text) <= MOST_BYTES else None
    except (urllib.error.URLError, OSError, ValueError):
        raise SignInError("the provider cannot be reached, or refused; try again, or sign in with a token.") from None
    if not isinstance(found, dict):
        raise SignInError("the provider's answer cannot be read.")
    return found


def routes(site: Site, page: Any) -> list[Route]:
    """The two addresses of this way to sign in; none if the settings name no provider."""
    settings = site.settings.openid
    if settings is None:
        return []
    try:
        import joserfc  # noqa: F401
    except ImportError:
        raise MissingExtraError("OpenID Connect needs joserfc: pip install 'understudy[openid]'.") from None
    provider = Provider(settings, openid_secret())
    back = settings.address.rstrip("/") + BACK
    secure = site.settings.secure_cookies

    async def begin(_: Request) -> Response:
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        try:
            where = await run_in_threadpool(
                lambda: provider.address(state=state, nonce=nonce, challenge=challenge, back=back)
            )
        except SignInError as problem:
            return refused(problem)
        answer = RedirectResponse(where, status_code=303)
        # Lax: the browser comes back from another site. It holds nothing but this sign-in.
        answer.set_cookie(
            COOKIE, f"{state}.{nonce}.{verifier}", max_age=60 * MINUTES, path=BEGIN, httponly=True, samesite="lax",
            secure=secure,
        )  # fmt: skip
        return answer

    async def returned(request: Request) -> Response:
        begun = request.cookies.get(COOKIE, "").split(".")
        code, state = request.query_params.get("code", ""), request.query_params.get("state", "")
        try:
            if len(begun) != 3 or not same(state, begun[0]):
                raise SignInError("this sign-in was not begun in this browser, or more than ten minutes ago.")
            if not 0 < len(code) <= LONGEST:
                raise SignInError("the provider did not let you in.")
            name = await run_in_threadpool(
                lambda: provider.name(code=code, verifier=begun[2], nonce=begun[1], back=back)
            )
            made = await run_in_threadpool(open_session_of, site.database, name, site.settings.session_hours)
            if made is None:
                raise SignInError("the provider knows you, and this server does not; ask your steward for a role.")
        except SignInError as problem:
            return refused(problem)
        # A page and not a redirect: browsers do not send a strict cookie on the way from another site.
        answer = cast(Response, page("signed_in.html", None))
        answer.set_cookie(**cookie(site, made[0]))
        answer.delete_cookie(COOKIE, path=BEGIN)
        return answer

    def refused(problem: SignInError) -> Response:
        said = str(problem)
        answer = cast(Response, page("sign_in.html", None, status=401, message=said[:1].upper() + said[1:]))
        answer.delete_cookie(COOKIE, path=BEGIN)
        return answer

    return [Route(BEGIN, begin, methods=["GET"]), Route(BACK, returned, methods=["GET"])]
