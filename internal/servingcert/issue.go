package servingcert

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// Lifetimes. Each certificate is renewed when a third of its life is left.
const (
	caLifetime      = 5 * 365 * 24 * time.Hour
	servingLifetime = 365 * 24 * time.Hour
	// clockSkew lets a certificate be used at once by a machine whose clock is
	// behind.
	clockSkew = time.Hour
)

const (
	blockCertificate = "CERTIFICATE"
	blockPrivateKey  = "EC PRIVATE KEY"
)

// errDue says that a certificate is to be renewed.
var errDue = errors.New("certificate is due for renewal")

// parse reads the Secret's serving certificate. It is an error when there is none,
// when it is not for the names or not by the authority, or when either is due.
func parse(data map[string][]byte, names []string, now time.Time) (*tls.Certificate, error) {
	authority, _, err := parseAuthority(data, now)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(data[keyCert], data[keyKey])
	if err != nil {
		return nil, fmt.Errorf("read the serving certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(authority)
	for _, name := range names {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: now}); err != nil {
			return nil, fmt.Errorf("verify the serving certificate for %s: %w", name, err)
		}
	}
	if due(pair.Leaf, now) {
		return nil, errDue
	}
	return &pair, nil
}

// parseAuthority reads the newest authority, which is the first in the bundle.
func parseAuthority(data map[string][]byte, now time.Time) (*x509.Certificate, crypto.Signer, error) {
	authorities, err := cert.ParseCertsPEM(data[keyCACert])
	if err != nil {
		return nil, nil, fmt.Errorf("read the authority: %w", err)
	}
	key, err := keyutil.ParsePrivateKeyPEM(data[keyCAKey])
	if err != nil {
		return nil, nil, fmt.Errorf("read the authority's key: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, nil, errors.New("the authority's key can't sign")
	}
	authority := authorities[0]
	public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(authority.PublicKey) {
		return nil, nil, errors.New("the authority's key is of another certificate")
	}
	if due(authority, now) {
		return nil, nil, errDue
	}
	return authority, signer, nil
}

// due tells that less than a third of a certificate's life is left.
func due(certificate *x509.Certificate, now time.Time) bool {
	life := certificate.NotAfter.Sub(certificate.NotBefore)
	return now.Before(certificate.NotBefore) || certificate.NotAfter.Sub(now) < life/3
}

// renew returns new Secret data with a new serving certificate, and a new
// authority where that is due too; an older authority that has not run out stays
// in the bundle, for what it signed is still being served.
func renew(old map[string][]byte, names []string, now time.Time) (map[string][]byte, error) {
	data := map[string][]byte{keyCACert: old[keyCACert], keyCAKey: old[keyCAKey]}
	authority, signer, err := parseAuthority(old, now)
	if err != nil {
		authority, signer, err = issueAuthority(data, now)
		if err != nil {
			return nil, err
		}
		data[keyCACert] = append(data[keyCACert], stillValid(old[keyCACert], now)...)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := template(names[0], now, servingLifetime)
	template.DNSNames = names
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	data[keyCert] = encodeCertificate(der)
	data[keyKey], err = encodeKey(key)
	return data, err
}

func issueAuthority(data map[string][]byte, now time.Time) (*x509.Certificate, crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := template(fmt.Sprintf("agentruntime-serving-ca-%d", now.Unix()), now, caLifetime)
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	authority, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, err
	}
	data[keyCACert] = encodeCertificate(der)
	data[keyCAKey], err = encodeKey(key)
	return authority, key, err
}

func template(name string, now time.Time, lifetime time.Duration) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		// crypto/rand does not fail on the platforms Go supports; were it to, a
		// certificate without a serial number is refused when it is made.
		serial = nil
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(lifetime),
	}
}

// stillValid keeps the certificates of a bundle that have not run out.
func stillValid(bundle []byte, now time.Time) []byte {
	certificates, err := cert.ParseCertsPEM(bundle)
	if err != nil {
		return nil
	}
	var out bytes.Buffer
	for _, certificate := range certificates {
		if now.Before(certificate.NotAfter) {
			out.Write(encodeCertificate(certificate.Raw))
		}
	}
	return out.Bytes()
}

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: blockCertificate, Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: blockPrivateKey, Bytes: der}), nil
}
