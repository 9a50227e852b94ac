package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func secretOf(t *testing.T, arguments ...string) *corev1.Secret {
	t.Helper()
	var out bytes.Buffer
	if err := run(arguments, &out, time.Now()); err != nil {
		t.Fatal(err)
	}
	var secret corev1.Secret
	if err := yaml.UnmarshalStrict(out.Bytes(), &secret); err != nil {
		t.Fatalf("what is printed is no Secret: %v", err)
	}
	return &secret
}

// serve answers over TLS with the Secret's certificate and returns where.
func serve(t *testing.T, secret *corev1.Secret) string {
	t.Helper()
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// connect does the handshake as a client that trusts one authority only.
func connect(t *testing.T, address, host string, authority []byte) error {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		t.Fatal("the authority is no certificate")
	}
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: host}}
	connection, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		return err
	}
	return connection.Close()
}

func TestTheSecretServesTheExecutorsNames(t *testing.T) {
	secret := secretOf(t)
	if secret.Type != corev1.SecretTypeTLS || secret.Namespace != "agentruntime-system" || secret.Name != "agentruntime-runtime-certificate" {
		t.Errorf("the Secret is %s %s/%s", secret.Type, secret.Namespace, secret.Name)
	}
	if len(secret.Data) != 3 {
		t.Errorf("%d keys in the Secret, want 3: the authority's key must not be among them", len(secret.Data))
	}
	address := serve(t, secret)
	for _, host := range []string{"agentruntime-runtime.agentruntime-system.svc", "agentruntime-runtime.agentruntime-system.svc.cluster.local"} {
		if err := connect(t, address, host, secret.Data["ca.crt"]); err != nil {
			t.Errorf("as %s: %v", host, err)
		}
	}
	if err := connect(t, address, "another.agentruntime-system.svc", secret.Data["ca.crt"]); err == nil {
		t.Error("the certificate is good for a name that is not its own")
	}
	if err := connect(t, address, "agentruntime-runtime.agentruntime-system.svc", secretOf(t).Data["ca.crt"]); err == nil {
		t.Error("another run's authority vouches for the certificate")
	}
}

func TestHostsMayBeAddresses(t *testing.T) {
	secret := secretOf(t, "-hosts=127.0.0.1,localhost")
	address := serve(t, secret)
	for _, host := range []string{"127.0.0.1", "localhost"} {
		if err := connect(t, address, host, secret.Data["ca.crt"]); err != nil {
			t.Errorf("as %s: %v", host, err)
		}
	}
}

func TestBadArgumentsPrintNothing(t *testing.T) {
	for name, arguments := range map[string][]string{
		"no host":         {"-hosts="},
		"an empty host":   {"-hosts=localhost,"},
		"an unknown flag": {"-days=3"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := run(arguments, &out, time.Now()); err == nil || out.Len() > 0 {
				t.Errorf("error %v, output %q", err, out.String())
			}
		})
	}
}
