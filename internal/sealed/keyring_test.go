package sealed

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
)

// testKey is a key whose bytes a test would notice in an error or a print.
func testKey(fill byte) []byte { return bytes.Repeat([]byte{fill}, KeyBytes) }

func testRing(tb testing.TB, primary string, keys map[string][]byte) *KeyRing {
	tb.Helper()
	data := map[string][]byte{PrimaryEntry: []byte(primary)}
	for id, key := range keys {
		data[KeyEntryPrefix+id] = key
	}
	ring, err := ParseKeyRing(data)
	if err != nil {
		tb.Fatal(err)
	}
	return ring
}

func TestParseKeyRingAccepts(t *testing.T) {
	key := testKey('K')
	cases := map[string][]byte{
		"raw bytes":                   key,
		"base64":                      []byte(base64.StdEncoding.EncodeToString(key)),
		"base64 without padding":      []byte(base64.RawStdEncoding.EncodeToString(key)),
		"base64 with a line's ending": []byte(base64.StdEncoding.EncodeToString(key) + "\n"),
	}
	want := testRing(t, "a", map[string][]byte{"a": key}).Mac("p", []byte("x"))
	for name, value := range cases {
		t.Run(name, func(t *testing.T) {
			ring, err := ParseKeyRing(map[string][]byte{PrimaryEntry: []byte("a\n"), "key-a": value})
			if err != nil {
				t.Fatal(err)
			}
			if got := ring.Mac("p", []byte("x")); got != want {
				t.Errorf("the key was read as another one: %s, want %s", got, want)
			}
			if ring.PrimaryID() != "a" || !ring.Has("a") || ring.Has("b") {
				t.Errorf("ring %v", ring)
			}
		})
	}
}

func TestParseKeyRingRefuses(t *testing.T) {
	tooMany := map[string][]byte{PrimaryEntry: []byte("1")}
	for i := range MaxKeys + 1 {
		tooMany[fmt.Sprintf("key-%d", i)] = testKey('K')
	}
	cases := map[string]map[string][]byte{
		"nothing":                      nil,
		"no primary":                   {"key-a": testKey('K')},
		"a primary that is missing":    {PrimaryEntry: testKey('K'), "key-a": testKey('K')},
		"an entry of another name":     {PrimaryEntry: []byte("a"), "key-a": testKey('K'), "password": testKey('K')},
		"a key without an id":          {PrimaryEntry: []byte(""), "key-": testKey('K')},
		"an id that is too long":       {PrimaryEntry: []byte("a"), "key-a": testKey('K'), "key-" + strings.Repeat("x", MaxKeyIDBytes+1): testKey('K')},
		"an id with another character": {PrimaryEntry: []byte("a"), "key-a": testKey('K'), "key-a:b": testKey('K')},
		"a short key":                  {PrimaryEntry: []byte("a"), "key-a": testKey('K')[1:]},
		"a long key":                   {PrimaryEntry: []byte("a"), "key-a": append(testKey('K'), 'K')},
		"a key in hex":                 {PrimaryEntry: []byte("a"), "key-a": []byte(strings.Repeat("4B", KeyBytes))},
		"an empty key":                 {PrimaryEntry: []byte("a"), "key-a": nil},
		"a key of zeros":               {PrimaryEntry: []byte("a"), "key-a": make([]byte, KeyBytes)},
		"too many keys":                tooMany,
	}
	for name, data := range cases {
		t.Run(name, func(t *testing.T) {
			ring, err := ParseKeyRing(data)
			if err == nil {
				t.Fatalf("accepted as %v", ring)
			}
			if strings.Contains(err.Error(), "KKKK") || strings.Contains(err.Error(), "4B4B") {
				t.Errorf("the error shows a value: %v", err)
			}
		})
	}
}

func TestGenerateAndRotateKeyRing(t *testing.T) {
	data := GenerateKeyRingData()
	old, err := ParseKeyRing(data)
	if err != nil {
		t.Fatal(err)
	}
	if other, err := ParseKeyRing(GenerateKeyRingData()); err != nil || other.PrimaryID() == old.PrimaryID() {
		t.Errorf("two new rings have one id, or %v", err)
	}
	before := maps.Clone(data)
	rotatedData, err := RotateKeyRingData(data)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.EqualFunc(before, data, bytes.Equal) {
		t.Error("rotating changed the data it was given")
	}
	rotated, err := ParseKeyRing(rotatedData)
	if err != nil {
		t.Fatal(err)
	}
	if rotated.PrimaryID() == old.PrimaryID() || !rotated.Has(old.PrimaryID()) {
		t.Errorf("rotated ring %v does not extend %v", rotated, old)
	}
	if _, err := RotateKeyRingData(map[string][]byte{}); err == nil {
		t.Error("a ring with no key was rotated")
	}
}

func TestRotateStopsAtTheBound(t *testing.T) {
	data := GenerateKeyRingData()
	for i := countKeys(data); i < MaxKeys; i++ {
		var err error
		if data, err = RotateKeyRingData(data); err != nil {
			t.Fatalf("rotation %d: %v", i, err)
		}
	}
	if _, err := RotateKeyRingData(data); err == nil {
		t.Errorf("rotated beyond %d keys", MaxKeys)
	}
}

func TestKeyRingPrintsNoKeys(t *testing.T) {
	ring := testRing(t, "a", map[string][]byte{"a": testKey('K'), "b": testKey('L')})
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		for _, value := range []any{ring, *ring} {
			if got, want := fmt.Sprintf(verb, value), "KeyRing(primary a, 2 keys)"; got != want {
				t.Errorf("%s prints %q, want %q", verb, got, want)
			}
		}
	}
	if got := fmt.Sprint(KeyRing{}); got != "KeyRing(empty)" {
		t.Errorf("an empty ring prints %q", got)
	}
}

func TestMac(t *testing.T) {
	old := testRing(t, "a", map[string][]byte{"a": testKey('A')})
	rotated := testRing(t, "b", map[string][]byte{"a": testKey('A'), "b": testKey('B')})
	foreign := testRing(t, "a", map[string][]byte{"a": testKey('C')})
	stored := old.Mac("credential", []byte("user"), []byte("key"))
	cases := map[string]struct {
		ring    *KeyRing
		stored  string
		purpose string
		data    []string
		want    bool
		wantErr error
	}{
		"the same":                      {ring: old, stored: stored, purpose: "credential", data: []string{"user", "key"}, want: true},
		"the same after a rotation":     {ring: rotated, stored: stored, purpose: "credential", data: []string{"user", "key"}, want: true},
		"other data":                    {ring: old, stored: stored, purpose: "credential", data: []string{"user", "kez"}},
		"another purpose":               {ring: old, stored: stored, purpose: "arguments", data: []string{"user", "key"}},
		"the bound between parts moved": {ring: old, stored: stored, purpose: "credential", data: []string{"userk", "ey"}},
		"the parts joined":              {ring: old, stored: stored, purpose: "credential", data: []string{"userkey"}},
		"an empty part more":            {ring: old, stored: stored, purpose: "credential", data: []string{"user", "key", ""}},
		"another key of that id":        {ring: foreign, stored: stored, purpose: "credential", data: []string{"user", "key"}},
		"a cut sum":                     {ring: old, stored: stored[:len(stored)-1], purpose: "credential", data: []string{"user", "key"}},
		"no sum":                        {ring: old, stored: "a:", purpose: "credential", data: []string{"user", "key"}},
		"a key that is gone": {
			ring: old, stored: rotated.Mac("credential"), purpose: "credential", wantErr: ErrUnknownKey,
		},
		"no fingerprint": {ring: old, stored: "hello", purpose: "credential", wantErr: ErrUnreadable},
		"nothing":        {ring: old, stored: "", purpose: "credential", wantErr: ErrUnreadable},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var data [][]byte
			for _, part := range tc.data {
				data = append(data, []byte(part))
			}
			got, err := tc.ring.MatchMac(tc.stored, tc.purpose, data...)
			if got != tc.want || !errors.Is(err, tc.wantErr) {
				t.Errorf("got %v, %v, want %v, %v", got, err, tc.want, tc.wantErr)
			}
		})
	}
	if !EqualMac(stored, old.Mac("credential", []byte("user"), []byte("key"))) || EqualMac(stored, stored+"x") {
		t.Error("EqualMac does not tell equal from different")
	}
}

// Stored fingerprints outlive a release, so what a key derives must never change.
func TestMacIsStable(t *testing.T) {
	ring := testRing(t, "a", map[string][]byte{"a": testKey('A')})
	const want = "a:yYRI5VGFAPmBXak3czFnOtOEIXjfIw2oQsPApqsF-kA"
	if got := ring.Mac("credential", []byte("user"), []byte("key")); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
