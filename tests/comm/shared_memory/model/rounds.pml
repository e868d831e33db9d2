// The protocol of comm/shared_memory as a model for the checker `spin`: counters with sleepers
// (counter.h), and a collective in rounds over a ring of slots (operation.h). run.sh checks it.
//
// What must hold: nobody overwrites what a peer has yet to read, everybody reads what was meant for
// the round, and nobody sleeps for ever, though no sleep here ever ends by itself.
//
// A step of the model is a step of one thread between two looks at shared memory. Memory is taken
// to be sequentially consistent: where the code relies on that (a raise that looks for sleepers, a
// sleeper that looks again), it uses seq_cst; elsewhere a value that is acquired publishes all that
// was written before it was released, as reading in order does here.

#ifndef RANKS
#define RANKS 2
#endif
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef ROUNDS
#define ROUNDS 4
#endif

// Counters: one of each kind a rank, at KIND * RANKS + rank.
#define FILLED 0
#define REDUCED 1
#define DRAINED 2
#define AT(kind, rank) ((kind) * RANKS + (rank))

byte value[3 * RANKS];
byte sleepers[3 * RANKS];
bool asleep[RANKS];    // In the kernel.
byte sleeps_on[RANKS];  // Which counter.

// What lies in each slot: the number of the round, counted from 1. Slices are the reduced parts.
byte content[2 * RANKS * SLOTS];
#define DATA 0
#define SLICE 1
#define SLOT(what, rank, round) (((what) * RANKS + (rank)) * SLOTS + (round) % SLOTS)

byte left;  // Ranks that have made all rounds.

inline raise(counter, to) {
  value[counter] = to;
  if
  :: sleepers[counter] > 0 ->
     atomic {  // FUTEX_WAKE
       sleeper = 0;
       do
       :: sleeper < RANKS ->
          if
          :: asleep[sleeper] && sleeps_on[sleeper] == counter -> asleep[sleeper] = false
          :: else
          fi;
          sleeper++
       :: else -> break
       od;
       sleeper = 0
     }
  :: else
  fi
}

inline sleep_until(counter, target) {
#ifndef WITHOUT_SLEEPERS
  sleepers[counter]++;
#endif
  seen = value[counter];
  if
  :: seen < target ->
     atomic {  // FUTEX_WAIT: sleeps only while the word is as it was seen.
       if
       :: value[counter] == seen -> asleep[me] = true; sleeps_on[me] = counter
       :: else
       fi
     }
     !asleep[me]
  :: else
  fi;
#ifndef WITHOUT_SLEEPERS
  sleepers[counter]--;
#endif
  seen = 0
}

// Sets `lacking` to the first peer whose counter of `kind` is below `target`, or to RANKS.
// In one step: counters only rise, so what held when each was looked at holds at the end.
inline look(kind, target) {
  atomic {
  least = target;
  peer = 0;
  lacking = RANKS;
  do
  :: peer < RANKS && lacking == RANKS ->
     if
     :: peer != me && value[AT(kind, peer)] < least -> lacking = peer
     :: else
     fi;
     peer++
  :: else -> break
  od;
  peer = 0;
  least = 0
  }
}

inline read_all(what, round) {
  atomic {
  peer = 0;
  do
  :: peer < RANKS ->
     assert(content[SLOT(what, peer, round)] == round + 1);
     peer++
  :: else -> break
  od;
  peer = 0
  }
}

proctype Rank(byte me) {
  byte filled, reduced, drained, peer, lacking, least, seen, sleeper;
  byte wait_for, wait_to;
  do
  :: drained == ROUNDS -> break
  :: else ->
     wait_to = 0;  // Nothing to wait for yet.
     // Drain?
     if
     :: drained < reduced ->
        look(REDUCED, drained + 1);
        if
        :: lacking == RANKS ->
           read_all(SLICE, drained);
           drained++;
           raise(AT(DRAINED, me), drained);
           goto again
        :: else -> wait_for = AT(REDUCED, lacking); wait_to = drained + 1
        fi
     :: else
     fi;
     // Reduce?
     if
     :: reduced < filled ->
        look(FILLED, reduced + 1);
        if
        :: lacking == RANKS ->
           read_all(DATA, reduced);
           content[SLOT(SLICE, me, reduced)] = reduced + 1;
           reduced++;
           raise(AT(REDUCED, me), reduced);
           goto again
        :: lacking != RANKS && wait_to == 0 ->
           wait_for = AT(FILLED, lacking); wait_to = reduced + 1
        :: else
        fi
     :: else
     fi;
     // Fill?
     if
     :: filled < ROUNDS ->
#ifdef WITHOUT_DRAINING
        lacking = RANKS;
#else
        least = (filled + 1 > SLOTS -> filled + 1 - SLOTS : 0);
        look(DRAINED, least);
#endif
        if
        :: lacking == RANKS ->
           content[SLOT(DATA, me, filled)] = filled + 1;
           filled++;
           raise(AT(FILLED, me), filled);
           goto again
        :: lacking != RANKS && wait_to == 0 ->
           wait_for = AT(DRAINED, lacking); wait_to = filled + 1 - SLOTS
        :: else
        fi
     :: else
     fi;
     sleep_until(wait_for, wait_to);
again:
     lacking = 0; wait_for = 0; wait_to = 0
  od;
  left++
}

init {
  byte rank = 0;
  atomic {
    do
    :: rank < RANKS -> run Rank(rank); rank++
    :: else -> break
    od;
    rank = 0
  }
  (left == RANKS)  // Else the end is not valid: somebody sleeps for ever.
}
