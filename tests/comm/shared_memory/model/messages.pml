// Messages between ranks (mailbox.h) as a model for the checker `spin`: a sender offers messages in
// posts, which it uses again; each receiver looks for its own address among them, takes what it
// finds and drains it. run.sh checks it.
//
// What must hold: a receiver reads only posts that nobody changes meanwhile, everybody gets the
// messages that were meant for it in the order in which they were sent, and all come to their end.
//
// Sequentially consistent, as rounds.pml; and a wait is the condition it waits for, as counters are
// that model's affair.

#define POSTS 2
#define RECEIVERS 2
#ifndef MESSAGES
#define MESSAGES 3  // For each receiver.
#endif

// A post. Numbers of messages: what is in it, for the checks.
byte address[POSTS];  // 0, or 1 + receiver.
byte number[POSTS];
byte taken_before[POSTS];
byte drained_before[POSTS];
byte taken[POSTS];
byte drained[POSTS];
bool changing[POSTS];  // The sender is writing what it does not write in one step.

byte order[RECEIVERS * MESSAGES];  // Which message of its receiver a number is.
byte finished;

inline offer(post, to) {
  in_use[post] = true;
  changing[post] = true;
  order[offered] = sent[to];
  number[post] = offered;
  taken_before[post] = taken[post];
  drained_before[post] = drained[post];
  changing[post] = false;
  address[post] = 1 + to;
  sent[to]++;
  offered++
}

inline release(post) {
#ifdef SENDER_CLEARS
  address[post] = 0;
#endif
  in_use[post] = false;
  done++
}

#define IS_DRAINED(post) (in_use[post] && drained[post] == drained_before[post] + 1)

proctype Sender() {
  byte sent[RECEIVERS];
  bool in_use[POSTS];
  byte offered, done;
  do
  :: done == RECEIVERS * MESSAGES -> break
  :: sent[0] < MESSAGES && !in_use[0] -> offer(0, 0)
  :: sent[1] < MESSAGES && !in_use[0] -> offer(0, 1)
  :: sent[0] < MESSAGES && in_use[0] && !in_use[1] -> offer(1, 0)
  :: sent[1] < MESSAGES && in_use[0] && !in_use[1] -> offer(1, 1)
  :: IS_DRAINED(0) -> release(0)
  :: IS_DRAINED(1) -> release(1)
  od;
  finished++
}

// Sets `first` to the earliest message for this rank, or to POSTS.
inline scan() {
  post = 0;
  first = POSTS;
  lowest = 255;
  do
  :: post < POSTS ->
     if
     :: address[post] == 1 + me ->
        assert(!changing[post]);
        if
#ifdef SENDER_CLEARS
        :: taken[post] > taken_before[post]  // Taken before, by this rank.
#else
        :: false
#endif
        :: else ->
           assert(!changing[post]);
           if
           :: number[post] < lowest -> first = post; lowest = number[post]
           :: else
           fi
        fi
     :: else
     fi;
     post++
  :: else -> break
  od;
  post = 0;
  lowest = 0
}

// Several receives of one tag.
proctype Receiver(byte me) {
  byte post, first, lowest, got, early_looks = 1;
  do
  :: got == MESSAGES -> break
  :: else ->
     if
     :: address[0] == 1 + me || address[1] == 1 + me
     :: early_looks > 0 -> early_looks--  // Before there is one for it.
     fi;
     scan();
#ifndef SCANS_ONCE
     if
     :: first < POSTS -> scan()
     :: else
     fi;
#endif
     if
     :: first < POSTS ->
        assert(!changing[first] && order[number[first]] == got);
#ifndef SENDER_CLEARS
        address[first] = 0;
#endif
        taken[first] = taken_before[first] + 1;
        assert(!changing[first] && order[number[first]] == got);  // Reads the message.
        got++;
        drained[first] = drained_before[first] + 1
     :: else
     fi
  od;
  finished++
}

init {
  atomic {
    run Sender();
    run Receiver(0);
    run Receiver(1)
  }
  (finished == RECEIVERS + 1)  // Else the end is not valid: a message is lost.
}
