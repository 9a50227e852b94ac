package stack

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	testenv "github.com/agentruntime/operator/test/envtest"
)

func (s *Stack) startPlane(ctx context.Context) error {
	proxy, err := s.frontProxy()
	if err != nil {
		return err
	}
	maps.Copy(proxy, s.options.APIServerArgs)
	s.plane = &envtest.Environment{BinaryAssetsDirectory: s.options.Assets, Scheme: testenv.NewScheme()}
	args := s.plane.ControlPlane.GetAPIServer().Configure()
	for name, value := range proxy {
		args.Set(name, value)
	}
	config, err := s.plane.Start()
	if err != nil {
		return fmt.Errorf("start the control plane of %s: %w", s.options.Assets, err)
	}
	config.QPS = -1
	s.Config = config
	if s.Client, err = client.New(config, client.Options{Scheme: testenv.NewScheme()}); err != nil {
		return err
	}
	admin, err := s.AddUser(ctx, "admin", "system:masters")
	if err != nil {
		return err
	}
	s.Admin = admin.Kubeconfig
	return nil
}

// frontProxy makes the certificates with which the API server's aggregator shows
// who it is, and returns the flags that name them.
func (s *Stack) frontProxy() (map[string]string, error) {
	file := func(name string) string { return filepath.Join(s.Dir, name) }
	if err := writeFrontProxy(file("front-proxy-ca.crt"), file("front-proxy.crt"), file("front-proxy.key")); err != nil {
		return nil, err
	}
	return map[string]string{
		"requestheader-client-ca-file":       file("front-proxy-ca.crt"),
		"requestheader-allowed-names":        "front-proxy-client",
		"requestheader-username-headers":     "X-Remote-User",
		"requestheader-uid-headers":          "X-Remote-Uid",
		"requestheader-group-headers":        "X-Remote-Group",
		"requestheader-extra-headers-prefix": "X-Remote-Extra-",
		"proxy-client-cert-file":             file("front-proxy.crt"),
		"proxy-client-key-file":              file("front-proxy.key"),
	}, nil
}

// certificateLife is longer than any stack runs.
const certificateLife = 24 * time.Hour

func writeFrontProxy(caFile, certFile, keyFile string) error {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	ca := template("front-proxy-ca", 1)
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return fmt.Errorf("make the front proxy's authority: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	leaf := template("front-proxy-client", 2)
	leaf.KeyUsage, leaf.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	if err != nil {
		return fmt.Errorf("make the front proxy's certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(
		writePEM(caFile, "CERTIFICATE", caDER), writePEM(certFile, "CERTIFICATE", der), writePEM(keyFile, "PRIVATE KEY", keyDER))
}

func template(name string, serial int64) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Minute), NotAfter: now.Add(certificateLife),
	}
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
