#!/usr/bin/env bash
# Makes the keys, certificates and key stores of this directory anew, with openssl 3 and the keytool of a JDK of 9 or
# later. The password of everything is "secret1". Certificates are valid for a hundred years.
set -euo pipefail
cd "$(dirname "$0")"
rm -f -- *.crt *.key *.pem *.p12 *.jks *.jceks
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
days=36500 curve="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"

sign() { # name subject extensions [days]
  printf '%s\n' "$3" > "$work/$1.ext"
  openssl req $curve -subj "$2" -keyout "$work/$1.key" -out "$work/$1.csr" 2>/dev/null
  openssl x509 -req -in "$work/$1.csr" -CA ca.crt -CAkey "$work/ca.key" -days "${4:-$days}" -set_serial "$RANDOM" \
    -extfile "$work/$1.ext" -out "$work/$1.crt" 2>/dev/null
}

openssl req -x509 $curve -days $days -subj "/CN=Test CA" -keyout "$work/ca.key" -out ca.crt 2>/dev/null
openssl req -x509 $curve -days $days -subj "/CN=Other CA" -keyout "$work/other.key" -out other-ca.crt 2>/dev/null
sign node "/O=Ilion/CN=node" "subjectAltName=DNS:localhost,IP:127.0.0.1"
sign client "/O=Ilion/CN=app" "subjectAltName=URI:urn:other,URI:spiffe://example.org/app,IP:127.0.0.1"

# PEM: PKCS#8 in the clear and encrypted, SEC 1, PKCS#1
cat "$work/node.key" "$work/node.crt" ca.crt > node.pem
cat "$work/client.key" "$work/client.crt" > client.pem
chain() { cat "$work/node.crt" ca.crt; }
encrypted() { openssl pkcs8 -topk8 -in "$work/node.key" -passout pass:secret1 "$@"; }
{ encrypted -v2 aes-256-cbc -v2prf hmacWithSHA256; chain; } > node-aes.pem
{ encrypted -v2 aes-128-cbc -v2prf hmacWithSHA1; chain; } > node-aes128.pem
{ encrypted -v2 des3; chain; } > node-3des.pem
{ encrypted -v1 PBE-SHA1-3DES; chain; } > node-pbe1.pem
{ encrypted -scrypt; chain; } > node-scrypt.pem
{ openssl ec -in "$work/node.key" 2>/dev/null; chain; } > node-sec1.pem
openssl req -x509 -newkey rsa:2048 -nodes -days $days -subj "/CN=rsa" -keyout "$work/rsa.key" -out "$work/rsa.crt" 2>/dev/null
{ openssl rsa -in "$work/rsa.key" -traditional 2>/dev/null; cat "$work/rsa.crt"; } > rsa-pkcs1.pem

# PKCS#12 of openssl, today's and that of 1.x
export=(openssl pkcs12 -export -in "$work/node.crt" -inkey "$work/node.key" -certfile ca.crt -name node -passout pass:secret1)
"${export[@]}" -out node-openssl.p12
"${export[@]}" -legacy -certpbe PBE-SHA1-RC2-40 -keypbe PBE-SHA1-3DES -macalg sha1 -out node-old.p12
"${export[@]}" -certpbe NONE -keypbe AES-256-CBC -out node-plain-certificates.p12
openssl pkcs12 -export -nokeys -in ca.crt -passout pass:secret1 -out trust-openssl.p12

# Stores of Java
tool() { keytool -noprompt "$@" 2>/dev/null; }
from="-importkeystore -srckeystore node-openssl.p12 -srcstoretype PKCS12 -srcstorepass secret1 -deststorepass secret1"
tool $from -destkeystore node.jks -deststoretype JKS
tool $from -destkeystore node-java.p12 -deststoretype PKCS12
tool $from -destkeystore node.jceks -deststoretype JCEKS
for kind in JKS PKCS12; do
  file=trust.jks; [ $kind = JKS ] || file=trust-java.p12
  tool -importcert -alias ca -file ca.crt -keystore $file -storetype $kind -storepass secret1
  tool -importcert -alias other -file other-ca.crt -keystore $file -storetype $kind -storepass secret1
done
