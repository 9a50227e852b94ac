package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// certificate is what the executor serves TLS with.
type certificate struct {
	certFile, keyFile string
	authority         []byte // PEM, for the AgentRuntime's caBundle
}

// makeCertificate makes the executor's certificate as `make deploy-runtime` does,
// for this machine's address instead of a Service's name.
func (s *stack) makeCertificate(ctx context.Context, host string) (*certificate, error) {
	text, err := exec.CommandContext(ctx, filepath.Join(s.work, "bin", "runtimecert"), "-hosts="+host).Output()
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	var secret corev1.Secret
	if err := yaml.UnmarshalStrict(text, &secret); err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	c := &certificate{
		certFile:  filepath.Join(s.work, corev1.TLSCertKey),
		keyFile:   filepath.Join(s.work, corev1.TLSPrivateKeyKey),
		authority: secret.Data["ca.crt"],
	}
	return c, errors.Join(
		os.WriteFile(c.certFile, secret.Data[corev1.TLSCertKey], 0o600),
		os.WriteFile(c.keyFile, secret.Data[corev1.TLSPrivateKeyKey], 0o600))
}

// client trusts the authority, and nobody else.
func (c *certificate) client() *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.authority)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
}
