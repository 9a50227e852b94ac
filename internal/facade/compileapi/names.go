package compileapi

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"slices"
)

// repeatedName reports whether any object of valid JSON has a name twice. It looks at
// every byte once and keeps a hash for each name of the objects that are open, so
// that a million small values, sent to keep the server busy, cost little more than
// their reading.
func repeatedName(body []byte) bool {
	var names []uint64
	// opened has, for every object and array that is open, where its names begin.
	var opened []int
	seed := maphash.MakeSeed()
	for pos := 0; pos < len(body); pos++ {
		switch body[pos] {
		case '{', '[':
			opened = append(opened, len(names))
		case '}', ']':
			begin := opened[len(opened)-1]
			if twice(names[begin:]) {
				return true
			}
			names, opened = names[:begin], opened[:len(opened)-1]
		case '"':
			end, _ := scanString(body, pos+1)
			// In JSON a colon follows names only.
			if next := skipSpace(body, end+1); next < len(body) && body[next] == ':' {
				names = append(names, maphash.Bytes(seed, unescaped(body[pos:end+1])))
			}
			pos = end
		}
	}
	return false
}

// unescaped is what a string of valid JSON stands for, given with its quotes.
func unescaped(quoted []byte) []byte {
	if !bytes.ContainsRune(quoted, '\\') {
		return quoted[1 : len(quoted)-1]
	}
	var text string
	_ = json.Unmarshal(quoted, &text) // It is valid.
	return []byte(text)
}

// twice reports whether a hash is there twice; it sorts them.
func twice(hashes []uint64) bool {
	slices.Sort(hashes)
	for i := 1; i < len(hashes); i++ {
		if hashes[i] == hashes[i-1] {
			return true
		}
	}
	return false
}
