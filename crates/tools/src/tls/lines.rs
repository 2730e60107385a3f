//! What a node, cqlsh and drivers have to be told, ready to be copied.

use std::path::Path;

const TEXT: &str = r#"made DIR/ca.crt, node.pem, client.crt, client.key; keep DIR/ca.key to sign more

cassandra.yaml
--------------
client_encryption_options:
  enabled: true
  optional: false
  ssl_context_factory:
    class_name: org.apache.cassandra.security.PEMBasedSslContextFactory
  keystore: DIR/node.pem
  truststore: DIR/ca.crt
  # true: only clients with a certificate of this CA; optional: it is checked if there is one
  require_client_auth: false

cqlshrc, then: cqlsh --ssl HOST
-------------------------------
[connection]
ssl = true

[ssl]
certfile = DIR/ca.crt
validate = true
userkey = DIR/client.key
usercert = DIR/client.crt

Python
------
import ssl
from cassandra.cluster import Cluster
ssl_context = ssl.create_default_context(cafile="DIR/ca.crt")
ssl_context.load_cert_chain("DIR/client.crt", "DIR/client.key")
Cluster(["HOST"], ssl_context=ssl_context)

Java, application.conf; its stores are made by:
  keytool -importcert -noprompt -file DIR/ca.crt -keystore DIR/truststore.p12 -storepass trial1
  openssl pkcs12 -export -in DIR/client.crt -inkey DIR/client.key -out DIR/client.p12 -passout pass:trial1
----
datastax-java-driver.advanced.ssl-engine-factory {
  class = DefaultSslEngineFactory
  truststore-path = DIR/truststore.p12
  truststore-password = trial1
  keystore-path = DIR/client.p12
  keystore-password = trial1
}

Go
--
cluster := gocql.NewCluster("HOST")
cluster.SslOpts = &gocql.SslOptions{
	CaPath: "DIR/ca.crt", CertPath: "DIR/client.crt", KeyPath: "DIR/client.key",
	EnableHostVerification: true,
}
"#;

/// All of it, for files in `dir` and a node of the name `host`.
pub(super) fn all(dir: &Path, host: &str) -> String {
    TEXT.replace("DIR", &dir.display().to_string()).replace("HOST", host)
}
