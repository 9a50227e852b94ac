package sealed

import (
	"bytes"
	"maps"
	"regexp"
	"testing"
)

func namesRing(t *testing.T, names []byte) *KeyRing {
	t.Helper()
	data := map[string][]byte{PrimaryEntry: []byte("a"), "key-a": testKey('A')}
	if names != nil {
		data[NamesEntry] = names
	}
	ring, err := ParseKeyRing(data)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func TestNamesDifferWhenAnythingDiffers(t *testing.T) {
	ring := namesRing(t, testKey('N'))
	name := ring.Name("task", "ns", "alice")
	if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(name) {
		t.Errorf("name %q", name)
	}
	others := map[string]string{
		"another purpose":               ring.Name("mark", "ns", "alice"),
		"another part":                  ring.Name("task", "ns", "bob"),
		"the bound between parts moved": ring.Name("task", "nsa", "lice"),
		"the purpose's bound moved":     ring.Name("taskn", "s", "alice"),
		"the parts joined":              ring.Name("task", "nsalice"),
		"an empty part more":            ring.Name("task", "ns", "alice", ""),
		"another ring":                  namesRing(t, testKey('M')).Name("task", "ns", "alice"),
		"the key of boxes":              namesRing(t, testKey('A')).Name("task", "ns", "alice"),
	}
	for what, other := range others {
		if other == name || other == "" {
			t.Errorf("%s gives %q", what, other)
		}
	}
}

// Names outlive a release: a repeat of a request is found by its name.
func TestNamesAreStable(t *testing.T) {
	const want = "0ad1eab6e2f08fd4737d0c2133a8a1a5"
	if got := namesRing(t, testKey('N')).Name("task", "ns", "alice"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNamesSurviveARotation(t *testing.T) {
	data := GenerateKeyRingData()
	old, err := ParseKeyRing(data)
	if err != nil {
		t.Fatal(err)
	}
	rotatedData, err := RotateKeyRingData(data)
	if err != nil {
		t.Fatal(err)
	}
	rotated, err := ParseKeyRing(rotatedData)
	if err != nil {
		t.Fatal(err)
	}
	if !old.HasNames() || old.Name("p", "x") != rotated.Name("p", "x") {
		t.Error("a rotation changed the names")
	}
}

func TestARingWithoutANameKeyMakesNoNames(t *testing.T) {
	ring := namesRing(t, nil)
	if ring.HasNames() || ring.Name("task", "x") != "" {
		t.Errorf("made the name %q", ring.Name("task", "x"))
	}
	box := seal(t, ring, []byte("body"))
	if body, err := ring.Open(box, place); err != nil || string(body) != "body" {
		t.Errorf("opened %q, %v", body, err)
	}
}

func TestANameKeyMustBeAKey(t *testing.T) {
	for what, value := range map[string][]byte{"empty": {}, "short": testKey('N')[1:], "zeros": make([]byte, KeyBytes)} {
		data := map[string][]byte{PrimaryEntry: []byte("a"), "key-a": testKey('A'), NamesEntry: value}
		if ring, err := ParseKeyRing(data); err == nil {
			t.Errorf("%s: accepted as %v", what, ring)
		}
	}
}

func TestAddNameKey(t *testing.T) {
	lacking := map[string][]byte{PrimaryEntry: []byte("a"), "key-a": testKey('A')}
	before := maps.Clone(lacking)
	added, err := AddNameKey(lacking)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.EqualFunc(before, lacking, bytes.Equal) {
		t.Error("it changed the data it was given")
	}
	ring, err := ParseKeyRing(added)
	if err != nil || !ring.HasNames() || ring.PrimaryID() != "a" {
		t.Errorf("ring %v, %v", ring, err)
	}
	again, err := AddNameKey(added)
	if err != nil || !maps.EqualFunc(added, again, bytes.Equal) {
		t.Errorf("a name key was replaced, or %v", err)
	}
	if _, err := AddNameKey(nil); err == nil {
		t.Error("a ring that can't be read got a name key")
	}
}
