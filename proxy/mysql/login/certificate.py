"""TLS for the clients of the MySQL listener: the operator's certificate, or one made at start as MySQL itself does."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
import tempfile
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sqltypes.errors import ConfigError

NAME = "Upwell auto-generated server certificate"
LIFETIME = datetime.timedelta(days=3650)
CLOCKS_DIFFER = datetime.timedelta(days=1)


def server_context(cert: str = "", key: str = "") -> ssl.SSLContext:
    """The TLS settings of the listener. `cert` and `key`: paths of PEM files (the key may be in the first); with
    neither a self-signed certificate is made, which encrypts and proves nothing. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # as MySQL
    if cert:
        _load(context, cert, key)
        return context
    if key:
        raise ConfigError("a TLS key without a certificate: expected both, or neither")
    with tempfile.TemporaryDirectory(prefix="upwell-tls-") as folder:  # mode 700; the ssl module reads files only
        path = Path(folder) / "pem"
        path.write_bytes(self_signed())
        context.load_cert_chain(path)
    return context


def checked_pem(certificate: bytes, key: bytes) -> None:
    """Raises ConfigError for a certificate and a key, PEM, that do not make a pair."""
    with tempfile.TemporaryDirectory(prefix="upwell-tls-") as folder:
        shown, secret = Path(folder) / "certificate", Path(folder) / "key"
        shown.write_bytes(certificate)
        secret.write_bytes(key)
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(shown, secret, password="")
        except OSError as error:
            raise ConfigError(f"--grpc-tls-cert and --grpc-tls-key cannot be used together: {error}") from error


def self_signed() -> bytes:
    """A new key and a certificate for it, PEM. On a curve: made at once, and a handshake costs a tenth of RSA's."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.datetime.now(datetime.UTC)
    local = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_DIFFER)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(local), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + certificate.public_bytes(serialization.Encoding.PEM)


def _load(context: ssl.SSLContext, cert: str, key: str) -> None:
    try:
        # A key that is itself encrypted fails: without a password here the ssl module would ask the terminal for one.
        context.load_cert_chain(cert, key or None, password="")
    except OSError as error:  # ssl.SSLError is one
        named = ", ".join(repr(path) for path in (cert, key) if path)
        raise ConfigError(f"the TLS files {named} cannot be used: {error}") from error
