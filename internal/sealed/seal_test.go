package sealed

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
)

var place = Binding{Namespace: "docs", Kind: "ToolInvocation", Name: "ti-1", UID: "u-1", Field: "spec.arguments"}

// noise returns bytes that do not compress, the same for each size.
func noise(size int) []byte {
	source := rand.NewChaCha8([32]byte{1})
	out := make([]byte, size)
	_, _ = source.Read(out)
	return out
}

func seal(tb testing.TB, ring *KeyRing, plaintext []byte) Box {
	tb.Helper()
	box, err := ring.Seal(plaintext, place)
	if err != nil {
		tb.Fatal(err)
	}
	return box
}

func ringA(tb testing.TB) *KeyRing {
	tb.Helper()
	return testRing(tb, "a", map[string][]byte{"a": testKey('A')})
}

func TestRoundTrip(t *testing.T) {
	ring := ringA(t)
	cases := map[string][]byte{
		"nothing":                 {},
		"one byte":                {0},
		"a JSON object":           []byte(`{"amount": 12345678901234567890, "text": "知识"}`),
		"much of the same":        bytes.Repeat([]byte("compile "), 100_000),
		"noise":                   noise(100_000),
		"the most, compressible":  bytes.Repeat([]byte{'x'}, MaxPlaintext),
		"the most, of noise":      noise(MaxPlaintext),
		"text of an inline's end": noise(InlineLimit),
	}
	for name, plaintext := range cases {
		t.Run(name, func(t *testing.T) {
			box := seal(t, ring, plaintext)
			data := box.Marshal()
			if len(data) != box.MarshalledSize() || len(data) > MaxBoxBytes || box.Size != len(plaintext) {
				t.Errorf("%d bytes, said to be %d, of a body of %d, said to be %d", len(data), box.MarshalledSize(), len(plaintext), box.Size)
			}
			read, err := Unmarshal(data)
			if err != nil {
				t.Fatal(err)
			}
			// Comparing field by field, for cmp takes seconds over 4 MiB.
			if read.KeyID != box.KeyID || read.Nonce != box.Nonce || read.Size != box.Size || read.MAC != box.MAC ||
				!bytes.Equal(read.Ciphertext, box.Ciphertext) {
				t.Error("unmarshalled to another box")
			}
			got, err := ring.Open(read, place)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, plaintext) {
				t.Errorf("opened to other bytes")
			}
		})
	}
}

// What an older release stored must still open: the format, the labels of the
// derived keys and the binding's encoding are fixed.
func TestAStoredBoxStillOpens(t *testing.T) {
	const stored = "01016191c6c633d4ec95002eaf9cc1295b7129d90b0f0836a75ce30000001a1f193af780db52a9f049cf043ab3de0b6a" +
		"61991df5f52a688a7ff4d384be29265e505045c91ca55a25c7b6c0aac80344489eddcff343d36ab7e1ed7347b96c9130" +
		"035673f29b8a2ac1588df70408e794939e9b"
	data, err := hex.DecodeString(stored)
	if err != nil {
		t.Fatal(err)
	}
	box, err := Unmarshal(data)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := ringA(t).Open(box, place); err != nil || string(body) != "stored by an older release" {
		t.Errorf("opened to %q, %v", body, err)
	}
}

func TestABodyIsNotVisible(t *testing.T) {
	body := []byte("a private argument that nobody may see")
	ring := ringA(t)
	first, second := seal(t, ring, body), seal(t, ring, body)
	if bytes.Contains(first.Marshal(), body[:9]) {
		t.Error("the box shows the body")
	}
	if first.Nonce == second.Nonce || bytes.Equal(first.Ciphertext, second.Ciphertext) {
		t.Error("two boxes have one nonce or one ciphertext")
	}
	if first.MAC != second.MAC {
		t.Error("the HMAC of one body in one place differs")
	}
	elsewhere := place
	elsewhere.Name = "ti-2"
	moved, err := ring.Seal(body, elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	if moved.MAC == first.MAC {
		t.Error("equal HMACs tell that two objects have equal bodies")
	}
}

func TestInline(t *testing.T) {
	ring := ringA(t)
	overhead := seal(t, ring, noise(1000)).MarshalledSize() - 1000
	for size, want := range map[int]bool{10: true, InlineLimit - overhead: true, InlineLimit: false, InlineLimit + 1: false} {
		if box := seal(t, ring, noise(size)); box.Inline() != want {
			t.Errorf("%d bytes of noise, %d sealed: inline %v, want %v", size, box.MarshalledSize(), box.Inline(), want)
		}
	}
}

func TestOpensOnlyInItsPlace(t *testing.T) {
	ring := ringA(t)
	box := seal(t, ring, []byte("body"))
	cases := map[string]func(*Binding){
		"namespace": func(b *Binding) { b.Namespace = "other" },
		"kind":      func(b *Binding) { b.Kind = "AgentRun" },
		"name":      func(b *Binding) { b.Name = "ti-2" },
		"uid":       func(b *Binding) { b.UID = "u-2" },
		"no uid":    func(b *Binding) { b.UID = "" },
		"field":     func(b *Binding) { b.Field = "status.result" },
		"the bounds between the parts moved": func(b *Binding) {
			b.Name, b.UID = b.Name+b.UID, ""
		},
		"the parts swapped": func(b *Binding) { b.Name, b.UID = b.UID, b.Name },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			elsewhere := place
			change(&elsewhere)
			if body, err := ring.Open(box, elsewhere); !errors.Is(err, ErrUnreadable) || body != nil {
				t.Errorf("Open = %q, %v, want ErrUnreadable", body, err)
			}
			if same, err := ring.Matches(box, elsewhere, []byte("body")); same || err != nil {
				t.Errorf("Matches = %v, %v, want false", same, err)
			}
		})
	}
}

func TestEveryChangedBitFailsClosed(t *testing.T) {
	ring := ringA(t)
	data := seal(t, ring, []byte(`{"a": 1}`)).Marshal()
	for i := range data {
		for bit := range 8 {
			changed := slices.Clone(data)
			changed[i] ^= 1 << bit
			expectClosed(t, ring, changed)
		}
	}
	for n := range data {
		expectClosed(t, ring, data[:n])
	}
	expectClosed(t, ring, append(slices.Clone(data), 0))
}

// expectClosed fails when data opens, or fails with an error of no kind.
func expectClosed(t *testing.T, ring *KeyRing, data []byte) {
	t.Helper()
	box, err := Unmarshal(data)
	if err == nil {
		_, err = ring.Open(box, place)
	}
	if !errors.Is(err, ErrUnreadable) && !errors.Is(err, ErrUnknownKey) && !errors.Is(err, ErrTooLarge) {
		t.Errorf("%x: %v, want one of the errors", data, err)
	}
}

func TestExchangedPartsFailClosed(t *testing.T) {
	ring := testRing(t, "a", map[string][]byte{"a": testKey('A'), "b": testKey('A')})
	one, two := seal(t, ring, []byte("one")), seal(t, ring, []byte("two"))
	cases := map[string]func(*Box){
		"ciphertext":         func(b *Box) { b.Ciphertext = two.Ciphertext },
		"nonce":              func(b *Box) { b.Nonce = two.Nonce },
		"HMAC":               func(b *Box) { b.MAC = two.MAC },
		"size":               func(b *Box) { b.Size++ },
		"id of the same key": func(b *Box) { b.KeyID = "b" },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			box := one
			change(&box)
			if body, err := ring.Open(box, place); !errors.Is(err, ErrUnreadable) {
				t.Errorf("Open = %q, %v, want ErrUnreadable", body, err)
			}
		})
	}
}

func TestRotation(t *testing.T) {
	old := ringA(t)
	both := testRing(t, "b", map[string][]byte{"a": testKey('A'), "b": testKey('B')})
	gone := testRing(t, "b", map[string][]byte{"b": testKey('B')})
	box := seal(t, old, []byte("body"))

	if body, err := both.Open(box, place); err != nil || string(body) != "body" {
		t.Errorf("an old key opens %q, %v", body, err)
	}
	if same, err := both.Matches(box, place, []byte("body")); err != nil || !same {
		t.Errorf("an old key matches: %v, %v", same, err)
	}
	if fresh := seal(t, both, []byte("body")); fresh.KeyID != "b" {
		t.Errorf("sealed under %s, want the primary", fresh.KeyID)
	}
	if _, err := gone.Open(box, place); !errors.Is(err, ErrUnknownKey) || errors.Is(err, ErrUnreadable) {
		t.Errorf("without the key: %v, want ErrUnknownKey", err)
	}
	if _, err := gone.Matches(box, place, []byte("body")); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("matching without the key: %v, want ErrUnknownKey", err)
	}
	if _, err := old.Open(seal(t, both, []byte("body")), place); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("an older ring: %v, want ErrUnknownKey", err)
	}
	foreign := testRing(t, "a", map[string][]byte{"a": testKey('C')})
	if _, err := foreign.Open(box, place); !errors.Is(err, ErrUnreadable) {
		t.Errorf("another key of that id: %v, want ErrUnreadable", err)
	}
}

func TestMatches(t *testing.T) {
	ring := ringA(t)
	box := seal(t, ring, []byte(`{"n": 1.0}`))
	for body, want := range map[string]bool{`{"n": 1.0}`: true, `{"n": 1}`: false, "": false} {
		if got, err := ring.Matches(box, place, []byte(body)); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", body, got, err, want)
		}
	}
}

// A bomb is genuine, as if a key holder made it: only the bounds of decompressing
// stand in its way.
func TestDecompressionIsBounded(t *testing.T) {
	ring := ringA(t)
	bomb := ring.codec.compress(make([]byte, MaxPlaintext))
	cases := map[string]struct {
		size       int
		compressed []byte
	}{
		"more than it says":       {size: 10, compressed: bomb},
		"one byte more":           {size: MaxPlaintext - 1, compressed: bomb},
		"much more than is ever":  {size: MaxPlaintext, compressed: bytes.Repeat(bomb, 50)},
		"less than it says":       {size: 100, compressed: ring.codec.compress(make([]byte, 99))},
		"no zstd at all":          {size: 3, compressed: []byte("abc")},
		"nothing":                 {size: 3, compressed: nil},
		"a window without bounds": {size: 3, compressed: frameWithWindow(t)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			box, err := ring.primary.encrypt(Box{KeyID: "a", Size: tc.size}, tc.compressed, place)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ring.Open(box, place); !errors.Is(err, ErrUnreadable) {
				t.Errorf("Open: %v, want ErrUnreadable", err)
			}
		})
	}
}

// frameWithWindow is a frame of zstd that asks for a window of 2 GiB, and then
// holds one raw block with "abc".
func frameWithWindow(t *testing.T) []byte {
	t.Helper()
	frame, err := hex.DecodeString("28b52ffd" + "00" + "a8" + "190000" + hex.EncodeToString([]byte("abc")))
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

func TestAWrongContentMACFailsClosed(t *testing.T) {
	ring := ringA(t)
	box, err := ring.primary.encrypt(Box{KeyID: "a", Size: 3}, ring.codec.compress([]byte("abc")), place)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ring.Open(box, place); !errors.Is(err, ErrUnreadable) || !strings.Contains(err.Error(), "HMAC") {
		t.Errorf("Open: %v, want ErrUnreadable for the HMAC", err)
	}
}

func TestTooLargeIsRefused(t *testing.T) {
	ring := ringA(t)
	if _, err := ring.Seal(make([]byte, MaxPlaintext+1), place); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Seal: %v, want ErrTooLarge", err)
	}
	if _, err := Unmarshal(make([]byte, MaxBoxBytes+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Unmarshal: %v, want ErrTooLarge", err)
	}
	box := seal(t, ring, []byte("x"))
	box.Size = MaxPlaintext + 1
	if _, err := ring.Open(box, place); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Open of a great size: %v, want ErrTooLarge", err)
	}
	if _, err := Unmarshal(box.Marshal()); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Unmarshal of a great size: %v, want ErrTooLarge", err)
	}
	box.Size = -1
	if _, err := ring.Open(box, place); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Open of a negative size: %v, want ErrTooLarge", err)
	}
	box = Box{KeyID: "a", Ciphertext: make([]byte, MaxBoxBytes+1)}
	if _, err := ring.Open(box, place); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Open of a long ciphertext: %v, want ErrTooLarge", err)
	}
}

func TestSealNeedsAPlace(t *testing.T) {
	ring := ringA(t)
	for name, change := range map[string]func(*Binding){
		"kind":  func(b *Binding) { b.Kind = "" },
		"name":  func(b *Binding) { b.Name = "" },
		"field": func(b *Binding) { b.Field = "" },
	} {
		t.Run("no "+name, func(t *testing.T) {
			nowhere := place
			change(&nowhere)
			if _, err := ring.Seal([]byte("x"), nowhere); err == nil {
				t.Error("sealed for no place")
			}
		})
	}
	clusterScoped := place
	clusterScoped.Namespace, clusterScoped.UID = "", ""
	box, err := ring.Seal([]byte("x"), clusterScoped)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := ring.Open(box, clusterScoped); err != nil || string(body) != "x" {
		t.Errorf("opened to %q, %v", body, err)
	}
}

func TestARingServesManyAtOnce(t *testing.T) {
	ring := ringA(t)
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			body := bytes.Repeat([]byte{byte(i)}, 50_000)
			box, err := ring.Seal(body, place)
			if err != nil {
				t.Errorf("seal %d: %v", i, err)
				return
			}
			if got, err := ring.Open(box, place); err != nil || !bytes.Equal(got, body) {
				t.Errorf("open %d: %v", i, err)
			}
		})
	}
	group.Wait()
}

func FuzzOpen(f *testing.F) {
	ring := ringA(f)
	bodies := [][]byte{{}, []byte("x"), bytes.Repeat([]byte("abc"), 100)}
	genuine := map[string][]byte{}
	for _, body := range bodies {
		data := seal(f, ring, body).Marshal()
		genuine[string(data)] = body
		f.Add(data)
		f.Add(data[:len(data)-1])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if body, ok := genuine[string(data)]; ok {
			box, err := Unmarshal(data)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := ring.Open(box, place); err != nil || !bytes.Equal(got, body) {
				t.Errorf("a genuine box opens to %q, %v", got, err)
			}
			return
		}
		expectUnsealed(t, ring, data)
	})
}

// expectUnsealed allows for a box of another process of the fuzzer, which is
// genuine under the same key but not known here: what opens must match itself.
func expectUnsealed(t *testing.T, ring *KeyRing, data []byte) {
	t.Helper()
	box, err := Unmarshal(data)
	if err != nil {
		expectClosed(t, ring, data)
		return
	}
	if !bytes.Equal(box.Marshal(), data) {
		t.Errorf("%x is unmarshalled to another box", data)
	}
	body, err := ring.Open(box, place)
	if err != nil {
		expectClosed(t, ring, data)
		return
	}
	if same, err := ring.Matches(box, place, body); err != nil || !same {
		t.Errorf("%x opens to a body that does not match it: %v", data, err)
	}
}

// FuzzDecompress reaches behind the encryption: whatever a frame claims, no more
// than the size comes out.
func FuzzDecompress(f *testing.F) {
	ring := ringA(f)
	for _, size := range []int{0, 1, 1000} {
		f.Add(ring.codec.compress(make([]byte, size)), size)
		f.Add(ring.codec.compress(noise(size)), size)
	}
	f.Fuzz(func(t *testing.T, compressed []byte, size int) {
		if size < 0 || size > 1<<16 {
			return
		}
		plaintext, err := ring.codec.decompress(compressed, size)
		if err != nil && !errors.Is(err, ErrUnreadable) {
			t.Errorf("error of no kind: %v", err)
		}
		if err == nil && len(plaintext) != size || cap(plaintext) > size+1+64 {
			t.Errorf("%d bytes (capacity %d) came out, want %d", len(plaintext), cap(plaintext), size)
		}
	})
}

func BenchmarkSealAndOpen(b *testing.B) {
	ring := ringA(b)
	for name, size := range map[string]int{"1KiB": 1 << 10, "16KiB": 16 << 10, "1MiB": 1 << 20} {
		body := []byte(strings.Repeat(`{"id": 17, "name": "an argument"}`, size/32))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				box, err := ring.Seal(body, place)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := ring.Open(box, place); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
