"""What the MySQL listener shows to clients on TLS."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from proxy.mysql.login.certificate import self_signed, server_context
from sqltypes.errors import ConfigError


def spoken(server: ssl.SSLContext, trusted: str | None = None) -> str | None:
    """The version of TLS that a client and this server agree on, in memory."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if trusted is None:
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    else:
        client.load_verify_locations(trusted)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while ends:
        for end in list(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            ends.remove(end)
            version = end.version()
    return version


def test_without_files_a_certificate_is_made() -> None:
    assert spoken(server_context()) == "TLSv1.3"


def test_the_certificate_made_can_be_trusted_by_who_has_it(tmp_path: Path) -> None:
    pem = tmp_path / "both.pem"
    pem.write_bytes(self_signed())
    assert spoken(server_context(str(pem)), trusted=str(pem)) == "TLSv1.3"
    with pytest.raises(ssl.SSLCertVerificationError):
        spoken(server_context(), trusted=str(pem))


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    for cert, key in (("nowhere.pem", ""), (str(Path(__file__)), ""), ("", "alone.pem")):
        with pytest.raises(ConfigError, match=r"nowhere\.pem|test_certificate|without a certificate"):
            server_context(cert, key)


def test_an_encrypted_key_does_not_make_the_server_ask_at_its_terminal(tmp_path: Path) -> None:
    pem = self_signed()
    private = serialization.load_pem_private_key(pem, None)
    (tmp_path / "cert").write_bytes(pem)
    (tmp_path / "key").write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"words"),
        )
    )
    with pytest.raises(ConfigError, match="cannot be used"):
        server_context(str(tmp_path / "cert"), str(tmp_path / "key"))
