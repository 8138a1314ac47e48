"""Signing in with OpenID Connect, against a provider made for the test that speaks the real protocol on loopback."""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import hmac
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest
from starlette.testclient import TestClient

from understudy.errors import InputError
from understudy.serving.database.people import revoke
from understudy.serving.settings import OpenId, read_settings, safe_address
from understudy.serving.web.application import make_application
from understudy.serving.web.guarding import POLICY
from understudy.serving.web.site import COOKIE

jose = pytest.importorskip("joserfc", reason="OpenID Connect needs joserfc: pip install 'understudy[openid]'")
from joserfc import jwt  # noqa: E402
from joserfc.jwk import ECKey, KeySet, RSAKey  # noqa: E402

CLIENT, SECRET = "understudy-server", "s3cret-of-the-client"
HOME = "https://server.example"


@functools.cache
def rsa_key(name: str, kid: str | None = None) -> RSAKey:
    """A key by its name, made once: to make one takes a while."""
    return RSAKey.generate_key(2048, {"kid": kid or name})


class Provider(ThreadingHTTPServer):
    """A provider of identities. ``claims`` and ``signing`` let a test spoil what it says."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server_address[1]}/realm"
        self.keys = [rsa_key("one"), ECKey.generate_key("P-256", {"kid": "two"})]
        self.codes: dict[str, dict[str, str]] = {}
        self.claims: dict[str, object] = {}
        self.said_issuer = self.issuer
        self.sign = lambda claims: jwt.encode({"alg": "RS256", "kid": "one"}, claims, self.keys[0])

    def sign_in(self, address: str, name: str) -> str:
        """What the provider's own page does: the person signs in, and the browser is sent back with a code."""
        asked = dict(parse_qsl(urlsplit(address).query))
        assert asked["client_id"] == CLIENT
        assert asked["response_type"] == "code"
        assert "openid" in asked["scope"].split()
        code = base64.urlsafe_b64encode(hashlib.sha256(f"{name}{time.time()}".encode()).digest()).decode()
        self.codes[code] = {**asked, "name": name}
        return f"/sign-in/openid/back?code={code}&state={asked['state']}"


class Handler(BaseHTTPRequestHandler):
    server: Provider

    def log_message(self, *_: object) -> None:
        """Nothing on standard error."""

    def _send(self, document: object, status: int = 200) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        own = self.server.issuer
        if self.path == "/realm/.well-known/openid-configuration":
            self._send(
                {
                    "issuer": self.server.said_issuer, "authorization_endpoint": f"{own}/authorize",
                    "token_endpoint": f"{own}/token", "jwks_uri": f"{own}/keys",
                }
            )  # fmt: skip
        elif self.path == "/realm/keys":
            self._send(KeySet(self.server.keys).as_dict(private=False))
        else:
            self._send({}, 404)

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
        given = {name: values[0] for name, values in form.items()}
        begun = self.server.codes.pop(given.get("code", ""), None)  # a code is good once
        proof = base64.urlsafe_b64encode(hashlib.sha256(given.get("code_verifier", "").encode()).digest())
        if (
            begun is None
            or given.get("client_secret") != SECRET
            or given["redirect_uri"] != begun["redirect_uri"]
            or proof.rstrip(b"=").decode() != begun["code_challenge"]
        ):
            self._send({"error": "invalid_grant"}, 400)
            return
        now = int(time.time())
        claims = {
            "iss": self.server.issuer, "aud": CLIENT, "sub": begun["name"], "exp": now + 300, "iat": now,
            "nonce": begun["nonce"], **self.server.claims,
        }  # fmt: skip
        self._send({"access_token": "x", "token_type": "Bearer", "id_token": self.server.sign(claims)})


@pytest.fixture
def provider():
    made = Provider()
    threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def client(served, provider, monkeypatch):
    monkeypatch.setenv("UNDERSTUDY_OPENID_SECRET", SECRET)
    openid = OpenId(issuer=provider.issuer, client_id=CLIENT, address=HOME)
    settings = dataclasses.replace(served.settings, openid=openid)
    return TestClient(make_application(settings, served.database), follow_redirects=False)


def begin(client) -> str:
    answer = client.get("/sign-in/openid")
    assert answer.status_code == 303
    assert "samesite=lax" in answer.headers["set-cookie"].lower()
    return answer.headers["location"]


def test_the_provider_says_who_and_the_database_says_what(client, provider):
    assert "Sign in with your organisation" in client.get("/sign-in").text
    answer = client.get(provider.sign_in(begin(client), "ana"))
    assert answer.status_code == 200
    assert answer.headers["content-security-policy"] == POLICY
    assert 'http-equiv="refresh"' in answer.text  # a redirect would leave the strict cookie behind
    assert "samesite=strict" in answer.headers["set-cookie"].lower()
    page = client.get("/")
    assert page.status_code == 200
    assert "ana, analyst, project labour" in page.text


def test_keys_of_another_kind_and_new_keys_are_read(client, provider):
    provider.sign = lambda claims: jwt.encode({"alg": "ES256", "kid": "two"}, claims, provider.keys[1])
    assert client.get(provider.sign_in(begin(client), "sue")).status_code == 200
    provider.keys[0] = rsa_key("three")
    provider.sign = lambda claims: jwt.encode({"alg": "RS256", "kid": "three"}, claims, provider.keys[0])
    assert client.get(provider.sign_in(begin(client), "sue")).status_code == 200


def by_hand(algorithm, claims, signature=lambda _: b""):
    """A token that no library would make."""

    def part(value):
        return base64.urlsafe_b64encode(value).rstrip(b"=")

    text = part(json.dumps({"alg": algorithm, "kid": "one"}).encode()) + b"." + part(json.dumps(claims).encode())
    return (text + b"." + part(signature(text))).decode()


NOW = int(time.time())


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"aud": "another"}, "for another server"),
        ({"aud": [CLIENT, "another"]}, "for another server"),
        ({"aud": [CLIENT, "another"], "azp": "another"}, "for another server"),
        ({"iss": "https://evil.example"}, "for another server"),
        ({"exp": NOW - 3600, "iat": NOW - 7200}, "expired"),
        ({"iat": NOW + 3600, "exp": NOW + 7200}, "expired"),
        ({"exp": None}, "expired"),
        ({"exp": True}, "expired"),
        ({"nonce": "another"}, "not the answer"),
        ({"nonce": None}, "not the answer"),
        ({"sub": None}, "has no"),
        ({"sub": ["ana"]}, "has no"),
        ({"sub": "nobody"}, "this server does not"),
        ({"sub": "ana' OR 1=1 --"}, "this server does not"),
    ],
)
def test_claims_that_prove_nothing_let_nobody_in(client, provider, claims, said):
    provider.claims = claims
    answer = client.get(provider.sign_in(begin(client), "ana"))
    assert answer.status_code == 401
    assert said in answer.text
    assert COOKIE not in client.cookies
    assert client.get("/").status_code == 303


@pytest.mark.parametrize("forgery", ["unsigned", "other key", "public key as a password", "no token"])
def test_forged_tokens_let_nobody_in(client, provider, forgery):
    other, public = rsa_key("other", "one"), provider.keys[0].as_pem(private=False)
    provider.sign = {
        "unsigned": lambda claims: by_hand("none", claims),
        "other key": lambda claims: jwt.encode({"alg": "RS256", "kid": "one"}, claims, other),
        "public key as a password": lambda claims: by_hand(
            "HS256", claims, lambda text: hmac.new(public, text, hashlib.sha256).digest()
        ),
        "no token": lambda _: None,
    }[forgery]
    answer = client.get(provider.sign_in(begin(client), "ana"))
    assert answer.status_code == 401
    assert client.get("/").status_code == 303


def test_a_sign_in_is_ended_by_the_browser_that_began_it_and_once(client, provider):
    back = provider.sign_in(begin(client), "ana")
    state, code = (dict(parse_qsl(urlsplit(back).query))[name] for name in ("state", "code"))
    other = client.get(f"/sign-in/openid/back?code={code}&state={state[::-1]}")
    assert other.status_code == 401
    assert "not begun in this browser" in other.text
    client.cookies.clear()
    assert client.get(back).status_code == 401
    back = provider.sign_in(begin(client), "ana")
    kept = dict(client.cookies)
    assert client.get(back).status_code == 200
    client.cookies.clear()
    client.cookies.update(kept)
    assert client.get(back).status_code == 401  # the code was used


def test_whoever_was_revoked_stays_out(client, provider, served):
    revoke(served.database, "ana")
    assert client.get(provider.sign_in(begin(client), "ana")).status_code == 401


def test_a_provider_that_is_not_there_or_is_another_is_said(client, provider):
    provider.said_issuer = "https://evil.example"
    answer = client.get("/sign-in/openid")
    assert answer.status_code == 401
    assert "calls itself otherwise" in answer.text
    provider.shutdown()
    provider.server_close()
    assert "cannot be reached" in client.get("/sign-in/openid").text


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('issuer = "http://id.example"\nclient_id = "c"\naddress = "https://s.example"', "issuer of .openid. must be"),
        ('issuer = "https://id.example"\nclient_id = "c"\naddress = "ftp://s.example"', "address of .openid. must be"),
        ('issuer = "https://id.example"\naddress = "https://s.example"', "client_id of .openid. must be a text"),
        ('client_secret = "x"', "The secret is named by UNDERSTUDY_OPENID_SECRET"),
    ],
)
def test_bad_settings_are_said_at_the_start(served, lines, said):
    file = served.folder / "site.toml"
    file.write_text(file.read_text() + f"\n[openid]\n{lines}\n")
    with pytest.raises(InputError, match=said):
        read_settings(file)


def test_without_its_secret_the_server_does_not_start(served, provider, monkeypatch):
    monkeypatch.delenv("UNDERSTUDY_OPENID_SECRET", raising=False)
    openid = OpenId(issuer=provider.issuer, client_id=CLIENT, address=HOME)
    with pytest.raises(InputError, match="needs the secret of the client"):
        make_application(dataclasses.replace(served.settings, openid=openid), served.database)


def test_addresses_that_others_could_read_are_not_safe():
    assert safe_address("https://id.example/realm")
    assert safe_address("http://127.0.0.1:8000")
    assert not any(map(safe_address, ("http://id.example", "https://", "file:///etc/passwd", "https://[", "x")))
