package compiletask

import "testing"

func TestReleasedLetsOneThroughUntilItIsDropped(t *testing.T) {
	r := newReleased()
	if !r.add("a") {
		t.Error("the first is held back")
	}
	if r.add("a") {
		t.Error("a second is let through before the cache has shown the first")
	}
	if !r.add("b") {
		t.Error("another task is held back")
	}
	r.drop("a")
	r.drop("unknown")
	if !r.add("a") {
		t.Error("a task is held back after it was dropped")
	}
}
