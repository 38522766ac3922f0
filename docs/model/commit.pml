/* The commit protocol of one shard, for spin.
 *
 * Two writers, RECORDS records, MINUTES minutes. A position is a small number, dense; an "end" is the position
 * behind a last record. README.md beside this file says what is left out; run.py checks this file and every broken
 * variant of it. A broken variant is a -D that takes one rule away: NO_..., or a name that says what is done
 * instead.
 *
 * Every step is one d_step: what a processor, the store or the world does without anybody in between. A step that
 * changes nothing (a request lost on its way, a 409, a 503) needs no line: the state in which it is sent again is
 * the state before it.
 */

#ifndef RECORDS
#define RECORDS 3
#endif
#ifndef MINUTES
#define MINUTES 2
#endif

#define NONE 15
#define BIT(i) (1 << (i))

/* A slot: the key of a segment. Its first record alone decides it. */
#ifndef FIRST_LAST_KEYS
#define SLOTS RECORDS
#define SLOT(first, end) (first)
#define FIRST(slot) (slot)
#define SLOTS_TO(first) (BIT((first) + 1) - 1)
#else
#define SLOTS (RECORDS * RECORDS)
#define SLOT(first, end) ((first) * RECORDS + (end) - 1)
#define FIRST(slot) ((slot) / RECORDS)
#define SLOTS_TO(first) (BIT(((first) + 1) * RECORDS) - 1)
#endif

/* The stream: records before `head` were put, records before `trim` are trimmed. `now` is the wall clock. */
byte head, trim, now;
byte minute[RECORDS];

/* S3: which objects there are, their ends, and in whose name: the writer + 1 whose commit is still going on, or 0.
 * `ever`: the records of every segment that was ever committed. `lost`: those of reported breaks of the chain. */
int alive;
byte end_of[SLOTS];
byte name_of[SLOTS];
byte start_marker = NONE;
byte ever, lost;

/* DynamoDB: the lease (writer + 1) and the checkpoint, an end. */
byte owner;
byte checkpoint = NONE;

/* A PUT that is held up on its way, of the writer `late_by` - 1 (0: none): it arrives at any later time, or never.
 * `late_name`: the writer + 1 while its commit still goes on. */
byte late_by, late_name, late_first, late_end;
bit late_unproven;

mtype = { down, reading, sending, asking };

/* A processor. It holds the records from `from` to before `next`; `floor` is the end of what is archived. */
typedef Writer {
	mtype state = down;
	byte next, from, floor;
	bit sentinel;	/* knows no segment yet: its first one follows TRIM_HORIZON */
	bit unproven;	/* the next segment reports a break */
	bit old;	/* the buffer outlived its guarantee */
	byte started;	/* the minute it started in */
	byte met;	/* minutes it has LISTed */
	short seen	/* stored ranges ahead, by slot */
};
Writer w[2];

#define HELD (w[p].from < w[p].next)
#define KEY SLOT(w[p].from, w[p].next)
#define EXISTS (alive & BIT(KEY))
#define READABLE (w[p].state == reading && w[p].next < head && w[p].next >= trim)
#define SAME_RUN (!HELD || minute[w[p].from] == minute[w[p].next])
#define MET (minute[w[p].next] > w[p].started || (w[p].met & BIT(minute[w[p].next])))
#ifndef NO_LIST_WITHOUT_CHECKPOINT
#define LISTED MET
#else
#define LISTED (w[p].floor == 0 || MET)
#endif

/* The three promises. create() and save() set them. */
bit stored_twice, chain_broken, checkpoint_ahead;

byte i, top; /* scratch, 0 between steps */

/* top = the end of everything that was archived or reported lost */
inline find_top() {
	top = 0;
	i = 0;
	do
	:: i < RECORDS -> if :: (ever | lost) & BIT(i) -> top = i + 1 :: else fi; i++
	:: else -> break
	od;
	i = 0
}

/* A PUT is accepted. */
inline create(a, b, says_unproven, id) {
	find_top();
	if
#ifndef NO_START_MARKER
	:: ever == 0 -> chain_broken = (a != start_marker)
#else
	:: ever == 0
#endif
	:: ever != 0 && a > top && says_unproven ->
		i = top;
		do :: i < a -> lost = lost | BIT(i); i++ :: else -> break od
	:: else -> chain_broken = (a > top)
	fi;
	alive = alive | BIT(SLOT(a, b));
	end_of[SLOT(a, b)] = b;
	name_of[SLOT(a, b)] = id;
	i = a;
	do
	:: i < b ->
		if :: ever & BIT(i) -> stored_twice = 1 :: else fi;
		ever = ever | BIT(i);
		i++
	:: else -> break
	od;
	assert(!stored_twice);
	assert(!chain_broken);
	i = 0;
	top = 0
}

/* KCL accepts a checkpoint. */
inline save(b) {
	find_top();
	checkpoint_ahead = (b > top);
	assert(!checkpoint_ahead);
	checkpoint = b;
	top = 0
}

/* Each commit has a writer id of its own: once it is over, no HEAD finds that id again. */
inline forget_id() {
#ifndef REUSED_WRITER_ID
	i = 0;
	do
	:: i < SLOTS -> if :: name_of[i] == p + 1 -> name_of[i] = 0 :: else fi; i++
	:: else -> break
	od;
	i = 0;
	late_name = (late_name == p + 1 -> 0 : late_name)
#else
	skip
#endif
}

inline go_down() {
	forget_id();
	w[p].state = down;
	w[p].next = 0; w[p].from = 0; w[p].floor = 0;
	w[p].sentinel = 0; w[p].unproven = 0; w[p].old = 0;
	w[p].started = 0; w[p].met = 0; w[p].seen = 0
}

/* Everything before `end` is archived: drop what we hold of it and go on behind it. */
inline archived_to(b) {
	forget_id();
	w[p].floor = b;
	w[p].sentinel = 0;
	w[p].unproven = 0;
	w[p].from = (b < w[p].next -> b : w[p].next);
	w[p].old = (HELD -> w[p].old : 0);
	w[p].state = reading
}

inline forget_late() {
	late_by = 0; late_name = 0; late_first = 0; late_end = 0; late_unproven = 0
}

proctype writer(bit p) {
	do
	:: d_step { w[p].state == down ->
		owner = p + 1;
		w[p].started = now;
		if
		:: checkpoint == NONE ->
			w[p].sentinel = 1;
#ifndef LATEST
			w[p].next = trim;
#else
			w[p].next = head;
#endif
			printf("SAY %d takes the lease and starts without a checkpoint, at record %d\n", p, w[p].next)
		:: else ->
			w[p].floor = checkpoint;
			w[p].next = (trim > checkpoint -> trim : checkpoint);
			w[p].unproven = (trim >= checkpoint);
			printf("SAY %d takes the lease and resumes at the checkpoint, record %d\n", p, w[p].next)
		fi;
		w[p].from = w[p].next;
		w[p].state = reading }

#ifndef NO_LIST
	/* LIST a minute that may hold segments of before the start, the first time it is met. */
	:: d_step { READABLE && SAME_RUN && !LISTED ->
		w[p].met = w[p].met | BIT(minute[w[p].next]);
		i = 0;
		do
		:: i < SLOTS ->
			if
			:: (alive & BIT(i)) && minute[FIRST(i)] == minute[w[p].next] && end_of[i] > w[p].floor ->
				w[p].seen = w[p].seen | BIT(i)
			:: else
			fi;
			i++
		:: else -> break
		od;
		i = 0;
		printf("SAY %d lists minute %d\n", p, minute[w[p].next]) }
#endif

#ifdef OVERTAKEN
	/* Retention trims what a running reader has not read yet; KCL goes on at the oldest record there is. */
	:: d_step { w[p].state == reading && !HELD && w[p].next < trim ->
		printf("SAY %d is overtaken by retention and reads on at record %d\n", p, trim);
		w[p].next = trim;
		w[p].from = trim }
#endif

	/* Take a record: a run is of one minute and spans no stored range. */
	:: d_step { READABLE && SAME_RUN &&
#ifndef NO_LIST
		    LISTED &&
#endif
		    !(HELD && (w[p].seen & SLOTS_TO(w[p].next))) ->
		i = 0;
		do
		:: i < SLOTS ->
			if
			:: (w[p].seen & BIT(i)) && FIRST(i) <= w[p].next ->
				w[p].seen = w[p].seen & ~BIT(i);
				if
				:: end_of[i] > w[p].floor ->
#ifndef NO_DOUBT
					/* It ends before the oldest record there is: something may be missing between. */
					w[p].unproven = w[p].unproven || (w[p].sentinel && end_of[i] <= w[p].next);
#endif
					w[p].floor = end_of[i];
					w[p].sentinel = 0
				:: else
				fi
			:: else
			fi;
			i++
		:: else -> break
		od;
		i = 0;
		if
		:: w[p].next < w[p].floor ->
			printf("SAY %d skips record %d, which is stored\n", p, w[p].next);
			w[p].unproven = 0;
			w[p].next++;
			w[p].from = w[p].next
		:: else ->
			printf("SAY %d takes record %d\n", p, w[p].next);
			w[p].next++
		fi }

	/* The guard on the buffer's age, before every request. */
#ifndef NO_AGE_GUARD
	:: d_step { w[p].old && (w[p].state == reading || w[p].state == sending) ->
		printf("SAY %d throws its old buffer away and exits\n", p);
		go_down() }
#define FRESH (!w[p].old)
#else
#define FRESH (1)
#endif

	/* Cut the run, anywhere: the first segment of a chain puts the start marker and compares it. */
	:: d_step { w[p].state == reading && HELD && FRESH ->
		forget_id();
		w[p].state = sending;
		if
		:: w[p].sentinel && start_marker == NONE ->
			start_marker = w[p].from;
			printf("SAY %d marks the start of the chain at record %d\n", p, w[p].from)
#ifndef NO_START_MARKER
		:: w[p].sentinel && start_marker != NONE && start_marker != w[p].from ->
			printf("SAY %d is refused: the chain was begun at record %d\n", p, start_marker);
			go_down()
#endif
		:: else
		fi }

	/* 200, and the answer arrives. */
	:: d_step { w[p].state == sending && FRESH && !EXISTS ->
		printf("SAY %d commits records %d to %d\n", p, w[p].from, w[p].next - 1);
		create(w[p].from, w[p].next, w[p].unproven, p + 1);
		archived_to(w[p].next) }

	/* 200, and the answer is lost: sent again. */
	:: d_step { w[p].state == sending && FRESH && !EXISTS ->
		printf("SAY %d commits records %d to %d, the answer is lost\n", p, w[p].from, w[p].next - 1);
		create(w[p].from, w[p].next, w[p].unproven, p + 1) }

	/* Held up on its way: sent again. */
#ifndef SLOW_REQUEST
#define YOUNG (w[p].from >= trim)
#else
#define YOUNG (1)
#endif
	:: d_step { w[p].state == sending && FRESH && late_by == 0 && YOUNG ->
		printf("SAY %d sends records %d to %d, the request is held up\n", p, w[p].from, w[p].next - 1);
		late_by = p + 1;
		late_name = p + 1;
		late_first = w[p].from;
		late_end = w[p].next;
		late_unproven = w[p].unproven }

#ifdef GUESSED_APPLIED
	/* No answer, taken for a yes. */
	:: d_step { w[p].state == sending ->
		printf("SAY %d gets no answer and believes records %d to %d stored\n", p, w[p].from, w[p].next - 1);
		archived_to(w[p].next) }
#endif

	/* 412. */
	:: d_step { w[p].state == sending && FRESH && EXISTS ->
#ifndef NO_HEAD
		printf("SAY %d gets 412 for the slot of record %d\n", p, w[p].from);
		w[p].state = asking }
#else
		printf("SAY %d gets 412 for the slot of record %d and believes its records stored\n", p, w[p].from);
		archived_to(w[p].next) }
#endif

	/* HEAD: ours, another's, or deleted under us. */
	:: d_step { w[p].state == asking ->
		if
		:: !EXISTS ->
			printf("SAY %d finds the object gone and exits\n", p);
			go_down()
		:: EXISTS && name_of[KEY] == p + 1 ->
			printf("SAY %d finds its own id: records %d to %d are committed\n", p, w[p].from, w[p].next - 1);
			archived_to(w[p].next)
		:: else ->
			printf("SAY %d finds another's segment, which ends at record %d\n", p, end_of[KEY] - 1);
			archived_to(end_of[KEY])
		fi }

	/* Checkpoint a segment's end, once it was delivered. KCL refuses whoever does not hold the lease. */
#ifndef CHECKPOINT_FIRST
#define OFFERED w[p].floor
	:: d_step { w[p].state == reading && !w[p].sentinel && w[p].floor <= w[p].next && w[p].floor != checkpoint ->
#else
#define OFFERED w[p].next
	:: d_step { w[p].state == reading && HELD && w[p].next != checkpoint ->
#endif
		if
		:: owner == p + 1 ->
			printf("SAY %d checkpoints after record %d\n", p, OFFERED - 1);
			save(OFFERED)
		:: else ->
#ifndef NO_SILENCE
			printf("SAY %d is told that its lease is lost, and falls silent\n", p);
			go_down()
#else
			printf("SAY %d is told that its lease is lost, drops its buffer and goes on\n", p);
			w[p].from = w[p].next;
			w[p].old = 0
#endif
		fi }

	/* A crash, a kill, a message that the lease is lost. */
	:: d_step { w[p].state != down ->
		printf("SAY %d crashes\n", p);
		go_down() }

	od
}

/* A buffer that holds a trimmed record is older than the guard allows. */
inline grow_old(p) {
	if :: w[p].from < trim && HELD -> w[p].old = 1 :: else fi
}

proctype world() {
	do
	/* A record arrives: now, in a later minute, or with a time that steps back by one. */
	:: d_step { head < RECORDS ->
		minute[head] = now;
		printf("SAY record %d arrives in minute %d\n", head, minute[head]);
		head++ }
	:: d_step { head < RECORDS && now > 0 ->
		minute[head] = now - 1;
		printf("SAY record %d arrives in minute %d\n", head, minute[head]);
		head++ }
	:: d_step { now < MINUTES - 1 && head > 0 ->
		printf("SAY the minute changes\n");
		now++ }

	/* Retention trims the oldest record. */
	:: d_step { trim < head ->
		printf("SAY record %d is trimmed\n", trim);
		trim++;
		grow_old(0);
		grow_old(1);
#ifndef SLOW_REQUEST
		/* A request of before has long arrived or failed. */
		if :: late_by && late_first < trim -> forget_late() :: else fi
#endif
		}

	/* A held-up request arrives, or never does. Its answer reaches nobody. */
	:: d_step { late_by ->
		if
		:: !(alive & BIT(SLOT(late_first, late_end))) ->
			printf("SAY the held-up request of %d arrives: records %d to %d\n", late_by - 1, late_first, late_end - 1);
			create(late_first, late_end, late_unproven, late_name)
		:: else
		fi;
		forget_late() }
	:: d_step { late_by -> forget_late() }

	/* The oldest raw object expires: beyond retention, never the last of the chain. */
	:: d_step { alive & (alive - 1) ->
		do :: alive & BIT(i) -> break :: else -> i++ od;
		if
#ifndef EARLY_EXPIRY
		:: end_of[i] <= trim ->
#else
		:: end_of[i] <= head ->
#endif
			printf("SAY the object of record %d expires\n", FIRST(i));
			alive = alive & ~BIT(i);
			name_of[i] = 0
		:: else
		fi;
		i = 0 }

	/* The lease table is lost; or rebuilt from the archive. */
	:: d_step { checkpoint != NONE ->
		printf("SAY the lease table is lost\n");
		checkpoint = NONE;
		owner = 0 }
	:: d_step { checkpoint == NONE && ever != 0 ->
		find_top();
		printf("SAY the lease table is restored: after record %d\n", top - 1);
		checkpoint = top;
		top = 0;
		owner = 0 }
	od
}

init {
	atomic { run writer(0); run writer(1); run world() }
}
