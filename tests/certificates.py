"""A certificate authority and a certificate, made for one test."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Certificates(NamedTuple):
    """Paths of PEM files: the authority, a certificate of its, and that one's key."""

    ca: Path
    cert: Path
    key: Path


def certificates(place: Path, *names: str) -> Certificates:
    """Make an authority and a certificate for host names and addresses."""
    place.mkdir(parents=True, exist_ok=True)
    authority, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority of a test")])
    ca = _builder(issuer, issuer, authority).add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    ca = ca.add_extension(x509.SubjectKeyIdentifier.from_public_key(authority.public_key()), critical=False)
    ca = ca.add_extension(x509.KeyUsage(False, False, False, False, False, True, True, False, False), critical=True)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gateway of a test")])
    leaf = _builder(subject, issuer, own).add_extension(x509.SubjectAlternativeName(list(map(_name, names))),
                                                        critical=False)
    leaf = leaf.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()),
                              critical=False)
    made = Certificates(place / "ca.pem", place / "cert.pem", place / "key.pem")
    made.ca.write_bytes(ca.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    made.cert.write_bytes(leaf.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    made.key.write_bytes(own.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                           serialization.NoEncryption()))
    return made


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
            .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=1)))


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
