package servingcert

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	names = []string{"webhook.operator.svc", "webhook.operator.svc.cluster.local"}
	begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

func issue(t *testing.T, old map[string][]byte, now time.Time) map[string][]byte {
	t.Helper()
	data, err := renew(old, names, now)
	if err != nil {
		t.Fatalf("renew: %v", err)
	}
	return data
}

// accepts tells why a client that trusts the bundle would not accept the pair.
func accepts(t *testing.T, bundle []byte, pair *tls.Certificate, now time.Time) error {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		t.Fatal("the bundle holds no certificate")
	}
	_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: names[0], CurrentTime: now})
	return err
}

func TestRenew(t *testing.T) {
	first := issue(t, nil, begin)
	t.Run("a new certificate is good for its names and accepted by a client", func(t *testing.T) {
		pair, err := parse(first, names, begin)
		if err != nil {
			t.Fatalf("parse: %v", err)
		}
		if err := accepts(t, first[keyCACert], pair, begin); err != nil {
			t.Errorf("handshake: %v", err)
		}
		if _, err := parse(first, []string{"other.svc"}, begin); err == nil {
			t.Error("a certificate for other names was taken")
		}
	})
	t.Run("a serving certificate is renewed under the same authority when a third of its life is left", func(t *testing.T) {
		if _, err := parse(first, names, begin.Add(servingLifetime*6/10)); err != nil {
			t.Errorf("renewed too early: %v", err)
		}
		late := begin.Add(servingLifetime * 7 / 10)
		if _, err := parse(first, names, late); err == nil {
			t.Fatal("not renewed in time")
		}
		second := issue(t, first, late)
		if diff := cmp.Diff(string(first[keyCACert]), string(second[keyCACert])); diff != "" {
			t.Errorf("the authority changed (-old +new):\n%s", diff)
		}
		if slices.Equal(first[keyCert], second[keyCert]) {
			t.Error("the serving certificate did not change")
		}
	})
	t.Run("a new authority is trusted beside the old one until that has run out", func(t *testing.T) {
		late := begin.Add(caLifetime * 7 / 10)
		second := issue(t, first, late)
		stranger, err := parse(issue(t, nil, late), names, late)
		if err != nil {
			t.Fatal(err)
		}
		if err := accepts(t, second[keyCACert], stranger, late); err == nil {
			t.Error("a certificate of a third authority is accepted")
		}
		served, err := renew(map[string][]byte{keyCACert: first[keyCACert], keyCAKey: first[keyCAKey]}, names, begin.Add(caLifetime/2))
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(served[keyCert], served[keyKey])
		if err != nil {
			t.Fatal(err)
		}
		if err := accepts(t, second[keyCACert], &pair, begin.Add(caLifetime/2+time.Hour)); err != nil {
			t.Errorf("what another manager still serves is not accepted under the new bundle: %v", err)
		}
		third := issue(t, second, late.Add(caLifetime))
		if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM(third[keyCACert]) || len(stillValid(third[keyCACert], late.Add(caLifetime))) != len(third[keyCACert]) {
			t.Error("an authority that has run out stayed in the bundle")
		}
	})
}

func TestRenewRepairs(t *testing.T) {
	whole := issue(t, nil, begin)
	other := issue(t, nil, begin)
	cases := map[string]map[string][]byte{
		"an empty Secret":                       nil,
		"garbage":                               {keyCACert: []byte("x"), keyCAKey: []byte("x"), keyCert: []byte("x"), keyKey: []byte("x")},
		"a key of another authority":            {keyCACert: whole[keyCACert], keyCAKey: other[keyCAKey], keyCert: whole[keyCert], keyKey: whole[keyKey]},
		"a certificate of another authority":    {keyCACert: whole[keyCACert], keyCAKey: whole[keyCAKey], keyCert: other[keyCert], keyKey: other[keyKey]},
		"a serving key of another certificate":  {keyCACert: whole[keyCACert], keyCAKey: whole[keyCAKey], keyCert: whole[keyCert], keyKey: other[keyKey]},
		"a missing serving certificate":         {keyCACert: whole[keyCACert], keyCAKey: whole[keyCAKey]},
		"a Secret whose authority key has gone": {keyCACert: whole[keyCACert], keyCert: whole[keyCert], keyKey: whole[keyKey]},
	}
	for name, data := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(data, names, begin); err == nil {
				t.Fatal("was taken as it is")
			}
			if _, err := parse(issue(t, data, begin), names, begin); err != nil {
				t.Errorf("was not repaired: %v", err)
			}
		})
	}
}

func TestGetCertificateBeforeTheFirstCheck(t *testing.T) {
	r := &Rotator{}
	if _, err := r.GetCertificate(nil); err == nil {
		t.Error("a certificate came from nowhere")
	}
	if err := r.Ready(nil); err == nil {
		t.Error("ready without a certificate")
	}
}
