"""Certificates for tests of TLS, made by `ilion tls`, `openssl` and the JDK's `keytool`."""
import ssl

from harness.node import ilion_binary, run

PASSWORD = "secret1"


class Certificates:
    """A CA with certificates of every kind."""

    def __init__(self, directory, with_stores=True, hosts=("localhost", "127.0.0.1", "::1")):
        self.directory = directory
        names = [word for host in hosts for word in ("--host", host)]
        self.said = run([ilion_binary(), "tls", directory / "good", "--spiffe", "spiffe://example.org/app", *names])
        self.ca, self.node = directory / "good/ca.crt", directory / "good/node.pem"
        self.client = (directory / "good/client.crt", directory / "good/client.key")
        run([ilion_binary(), "tls", directory / "other"])
        self.foreign = (directory / "other/client.crt", directory / "other/client.key")
        self.other_node, self.other_ca = directory / "other/node.pem", directory / "other/ca.crt"
        self.own = self.self_signed()
        self.expired = self.expired_client()
        if with_stores:
            self.stores()

    def openssl(self, *arguments):
        run(["openssl", *arguments])

    def self_signed(self):
        paths = self.directory / "own.crt", self.directory / "own.key"
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj",
                     "/CN=own", "-out", paths[0], "-keyout", paths[1])
        return paths

    def of_identity(self, name, identity):
        """Another client of the same authority."""
        paths = self.directory / f"{name}.crt", self.directory / f"{name}.key"
        request, extensions = self.directory / f"{name}.csr", self.directory / f"{name}.cnf"
        extensions.write_text(f"subjectAltName = URI:{identity}\n")
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}", "-out",
                     request, "-keyout", paths[1])
        self.openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.directory / "good/ca.key", "-days", "30",
                     "-extfile", extensions, "-out", paths[0])
        return paths

    def expired_client(self):
        paths = self.directory / "expired.crt", self.directory / "expired.key"
        (self.directory / "index.txt").touch()
        (self.directory / "ca.cnf").write_text(
            f"[ca]\ndefault_ca = d\n[d]\ndatabase = {self.directory}/index.txt\nnew_certs_dir = {self.directory}\n"
            "default_md = sha256\nrand_serial = yes\npolicy = p\n[p]\ncommonName = supplied\n")
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=expired", "-out",
                     self.directory / "expired.csr", "-keyout", paths[1])
        self.openssl("ca", "-batch", "-notext", "-config", self.directory / "ca.cnf", "-cert", self.ca, "-keyfile",
                     self.directory / "good/ca.key", "-startdate", "200101000000Z", "-enddate", "210101000000Z", "-in",
                     self.directory / "expired.csr", "-out", paths[0])
        return paths

    def stores(self):
        """What users of Cassandra have: PKCS#12 of openssl and Java, JKS of Java."""
        p12, jks = self.directory / "node.p12", self.directory / "node.jks"
        self.openssl("pkcs12", "-export", "-in", self.node, "-inkey", self.node, "-name", "node", "-passout",
                     f"pass:{PASSWORD}", "-out", p12)
        run(["keytool", "-noprompt", "-importkeystore", "-srckeystore", p12, "-srcstoretype", "PKCS12", "-srcstorepass", PASSWORD,
             "-destkeystore", jks, "-deststoretype", "JKS", "-deststorepass", PASSWORD])
        for kind, name in (("JKS", "trust.jks"), ("PKCS12", "trust.p12")):
            run(["keytool", "-noprompt", "-importcert", "-alias", "ca", "-file", self.ca, "-keystore", self.directory / name,
                 "-storetype", kind, "-storepass", PASSWORD])

    def context(self, own=None, version=None, ca=None):
        context = ssl.create_default_context(cafile=str(ca or self.ca))
        if own:
            context.load_cert_chain(*map(str, own))
        if version:
            context.minimum_version = context.maximum_version = version
        return context
