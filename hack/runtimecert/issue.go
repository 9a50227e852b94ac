package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"time"
)

const (
	// lifetime is long, for nobody renews the certificate but an admin.
	lifetime = 10 * 365 * 24 * time.Hour
	// clockSkew lets a machine whose clock is behind use it at once.
	clockSkew = time.Hour
)

// pair is a serving certificate with its key and its authority, in PEM.
type pair struct {
	authority, certificate, key []byte
}

// issue makes a certificate for the hosts, each a DNS name or an IP address.
func issue(hosts []string, now time.Time) (*pair, error) {
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	authority, err := template("agentruntime-runtime authority", now)
	if err != nil {
		return nil, err
	}
	authority.IsCA, authority.BasicConstraintsValid, authority.MaxPathLenZero = true, true, true
	authority.KeyUsage = x509.KeyUsageCertSign
	authorityDER, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		return nil, err
	}

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serving, err := template("agentruntime-runtime", now)
	if err != nil {
		return nil, err
	}
	serving.KeyUsage = x509.KeyUsageDigitalSignature
	serving.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	if err := name(serving, hosts); err != nil {
		return nil, err
	}
	servingDER, err := x509.CreateCertificate(rand.Reader, serving, authority, key.Public(), authorityKey)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &pair{
		authority:   encode("CERTIFICATE", authorityDER),
		certificate: encode("CERTIFICATE", servingDER),
		key:         encode("PRIVATE KEY", keyDER),
	}, nil
}

func template(commonName string, now time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: commonName},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(lifetime),
	}, nil
}

func name(certificate *x509.Certificate, hosts []string) error {
	for _, host := range hosts {
		switch ip := net.ParseIP(host); {
		case ip != nil:
			certificate.IPAddresses = append(certificate.IPAddresses, ip)
		case host != "":
			certificate.DNSNames = append(certificate.DNSNames, host)
		default:
			return errors.New("a host is empty")
		}
	}
	return nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
