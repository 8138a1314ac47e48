"""Who may do what: people with a role and a token, projects with an allowance, sessions of the web pages."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from understudy.core.exact_numbers import from_text, to_text
from understudy.errors import InputError, unknown_name
from understudy.serving.database.connecting import Database, Session
from understudy.serving.database.log import note

ROLES = ("analyst", "steward", "approver", "auditor")
TOKEN_BYTES = 32
MOST_NAME = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody who signed in."""

    name: str
    role: str
    project: str | None

    @property
    def may_ask_the_data(self) -> bool:
        return self.role == "analyst" and self.project is not None

    @property
    def may_approve(self) -> bool:
        return self.role in ("steward", "approver")

    @property
    def may_audit(self) -> bool:
        return self.role in ("steward", "auditor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A limit inside the account of a data set; never a budget of its own."""

    name: str
    dataset: str
    allowance: Fraction


def hashed(secret: str) -> str:
    """What is kept of a token. It has 256 random bits, so a plain hash cannot be guessed back."""
    return hashlib.sha256(secret.encode()).hexdigest()


def add_project(database: Database, name: str, *, dataset: str, allowance: Fraction) -> None:
    """Open a project. Its allowance is fixed: a steward approves what goes beyond it, job by job."""
    _check_name(name, "project")
    if allowance < 0:
        raise InputError("an allowance cannot be negative.")

    def work(session: Session) -> None:
        if session.rows("SELECT 1 FROM projects WHERE name = ?", (name,)):
            raise InputError(f"project '{name}' exists already; its allowance is fixed.")
        session.run("INSERT INTO projects VALUES (?, ?, ?, ?)", (name, dataset, to_text(allowance), time.time()))
        note(session, "project", project=name, dataset=dataset, allowance=to_text(allowance))

    database.write(work)


def project_of(session: Session, name: str) -> Project:
    found = session.rows("SELECT name, dataset, allowance FROM projects WHERE name = ?", (name,))
    if not found:
        raise unknown_name("project", name, [row[0] for row in session.rows("SELECT name FROM projects")])
    return Project(name=found[0][0], dataset=found[0][1], allowance=from_text(found[0][2], "allowance"))


def add_person(database: Database, name: str, *, role: str, project: str | None) -> str:
    """Add a person, or give them a new token; the token is told this once and kept as its hash alone."""
    _check_name(name, "person")
    if role not in ROLES:
        raise unknown_name("role", role, ROLES)
    if (project is not None) != (role == "analyst"):
        raise InputError("an analyst belongs to a project, and nobody else does: give --project to analysts only.")
    token = secrets.token_urlsafe(TOKEN_BYTES)

    def work(session: Session) -> None:
        if project is not None:
            project_of(session, project)
        session.run("DELETE FROM sessions WHERE person = ?", (name,))
        session.run("DELETE FROM people WHERE name = ?", (name,))
        session.run(
            "INSERT INTO people (name, role, project, token, created) VALUES (?, ?, ?, ?, ?)",
            (name, role, project, hashed(token), time.time()),
        )
        note(session, "token", person=name, role=role, project=project)

    database.write(work)
    return token


def revoke(database: Database, name: str) -> None:
    """Nobody can sign in with this person's token any more; open sessions end."""

    def work(session: Session) -> None:
        if not session.run("UPDATE people SET revoked = ? WHERE name = ? AND revoked IS NULL", (time.time(), name)):
            raise InputError(f"there is no person '{name}' with a token.")
        session.run("DELETE FROM sessions WHERE person = ?", (name,))
        note(session, "revoked", person=name)

    database.write(work)


def person_with(session: Session, token: str) -> Person | None:
    """Whose token this is; it is looked up by its hash, so the time taken tells nothing about the token."""
    found = session.rows("SELECT name, role, project FROM people WHERE token = ? AND revoked IS NULL", (hashed(token),))
    return Person(name=found[0][0], role=found[0][1], project=found[0][2]) if found else None


def person_named(session: Session, name: str) -> Person | None:
    """A person by name, where somebody else has proved who they are."""
    found = session.rows("SELECT name, role, project FROM people WHERE name = ? AND revoked IS NULL", (name,))
    return Person(name=found[0][0], role=found[0][1], project=found[0][2]) if found else None


def open_session(database: Database, token: str, hours: float) -> tuple[str, Person] | None:
    """A new session for the owner of a token: its secret name, for a cookie."""
    return _opened(database, lambda session: person_with(session, token), hours)


def open_session_of(database: Database, name: str, hours: float) -> tuple[str, Person] | None:
    """A new session for a person whom a provider of identities vouches for."""
    return _opened(database, lambda session: person_named(session, name), hours)


def _opened(database: Database, find: Callable[[Session], Person | None], hours: float) -> tuple[str, Person] | None:
    secret = secrets.token_urlsafe(TOKEN_BYTES)

    def work(session: Session) -> Person | None:
        person = find(session)
        if person is not None:
            session.run("DELETE FROM sessions WHERE expires < ?", (time.time(),))
            session.run(
                "INSERT INTO sessions VALUES (?, ?, ?, ?)",
                (hashed(secret), person.name, secrets.token_urlsafe(TOKEN_BYTES), time.time() + hours * 3600),
            )
            note(session, "signed in", person=person.name)
        return person

    person = database.write(work)
    return None if person is None else (secret, person)


def session_of(session: Session, secret: str) -> tuple[Person, str] | None:
    """The person of a session that has not expired, and the word that its forms must carry."""
    found = session.rows(
        "SELECT people.name, people.role, people.project, sessions.csrf FROM sessions JOIN people "
        "ON people.name = sessions.person WHERE sessions.id = ? AND sessions.expires > ? AND people.revoked IS NULL",
        (hashed(secret), time.time()),
    )
    return (Person(name=found[0][0], role=found[0][1], project=found[0][2]), found[0][3]) if found else None


def close_session(database: Database, secret: str) -> None:
    database.write(lambda session: session.run("DELETE FROM sessions WHERE id = ?", (hashed(secret),)))


def _check_name(name: str, what: str) -> None:
    plain = name.replace("-", "").replace("_", "").replace(".", "")
    if not plain.isalnum() or not name.isascii() or len(name) > MOST_NAME:
        raise InputError(f"the name of a {what} has at most {MOST_NAME} letters, digits, and -, _ or . between them.")
