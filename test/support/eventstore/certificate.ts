/**
 * A certificate for 127.0.0.1 that signs itself, valid until 2120, and its key. It protects nothing: it is here so
 * that TLS can be tested on a machine without openssl, where nothing could make one.
 */
export const TEST_CERTIFICATE = `-----BEGIN CERTIFICATE-----
MIIBZDCCAQugAwIBAgIBATAKBggqhkjOPQQDAjATMREwDwYDVQQDDAhzdGFuZC1p
bjAgFw0yMDAxMDEwMDAwMDBaGA8yMTIwMDEwMTAwMDAwMFowEzERMA8GA1UEAwwI
c3RhbmQtaW4wWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQmC+10UB0/phEiEg/y
h8EngfAiyMDCwn4IQ9Z2LLlXmP4U1XuH9YeVWCNFA7PYA9Q+Jtwt4PeohorRGSj2
qJUHo04wTDAaBgNVHREEEzARhwR/AAABgglsb2NhbGhvc3QwDwYDVR0TAQH/BAUw
AwEB/zAdBgNVHQ4EFgQUkUjFcJQOqC+CRBNffQ7JatgZtnEwCgYIKoZIzj0EAwID
RwAwRAIgTxEmqwo6Ww+CUaxqH6WP83zM+Zi291maPUn/2L56QKgCIDzadRNuC/W/
PnUqsZ6aP3RfXlffv2gsyequ/eJ8/1Xj
-----END CERTIFICATE-----
`;

export const TEST_KEY = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgG/L/Shp2AMGNJnbm
bCKY7iteuHKjuXVywmoSTlTYLUmhRANCAAQmC+10UB0/phEiEg/yh8EngfAiyMDC
wn4IQ9Z2LLlXmP4U1XuH9YeVWCNFA7PYA9Q+Jtwt4PeohorRGSj2qJUH
-----END PRIVATE KEY-----
`;
