package crash

// Point names a place in the controller's work.
type Point string

// The points. "Before" is before the call leaves, "sent" when the request has been
// written and its answer has not come, "done" when the answer is there and nothing
// has been made of it.
const (
	SubmitBefore Point = "submit/before"
	SubmitSent   Point = "submit/sent"
	SubmitDone   Point = "submit/done"

	// The first poll of a session by this process, which on a runtime with durable
	// keys comes before anything is on record; and any poll.
	FirstPollBefore Point = "first-poll/before"
	FirstPollSent   Point = "first-poll/sent"
	FirstPollDone   Point = "first-poll/done"
	PollSent        Point = "poll/sent"
	PollDone        Point = "poll/done"

	CancelBefore Point = "cancel/before"
	CancelSent   Point = "cancel/sent"
	CancelDone   Point = "cancel/done"

	// The claim is a status write that says a task is about to be submitted.
	ClaimBefore Point = "claim/before"
	ClaimDone   Point = "claim/done"
	// The record is a status write that names the session or says why a task waits.
	RecordBefore Point = "record/before"
	RecordSent   Point = "record/sent"
	RecordDone   Point = "record/done"
	// The end is the terminal status write.
	EndBefore Point = "end/before"
	EndSent   Point = "end/sent"
	EndDone   Point = "end/done"

	FinalizerOnBefore  Point = "finalizer-on/before"
	FinalizerOnDone    Point = "finalizer-on/done"
	FinalizerOffBefore Point = "finalizer-off/before"
	FinalizerOffDone   Point = "finalizer-off/done"

	PayloadBefore Point = "payload/before"
	PayloadDone   Point = "payload/done"
)

// Points lists every point.
func Points() []Point {
	return []Point{
		SubmitBefore, SubmitSent, SubmitDone,
		FirstPollBefore, FirstPollSent, FirstPollDone, PollSent, PollDone,
		CancelBefore, CancelSent, CancelDone,
		ClaimBefore, ClaimDone, RecordBefore, RecordSent, RecordDone, EndBefore, EndSent, EndDone,
		FinalizerOnBefore, FinalizerOnDone, FinalizerOffBefore, FinalizerOffDone,
		PayloadBefore, PayloadDone,
	}
}
