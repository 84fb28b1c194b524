/*
 * recover_line.h - makes the line of numbers of a recovered store whole again: requests, profiles
 * behind each, samples behind these (docs/store.md), where rows of requests or of profiles are
 * lost.
 *
 * Samples whose profile is lost get one of the time of their first, in the series that their chunk
 * names; profiles whose request is lost one that came at an unknown time; a request whose profiles
 * are not all there has those that are, by the resource and scope of their series.
 */
#pragma once
#include "store/db.h"
#include "store/recover.h"

/* Within the caller's transaction. requests_lost: some of their rows may be. Adds to out->requests
 * and out->profiles. */
bool recover_line(sqlite3 *db, bool requests_lost, struct store_recovered *out,
		  struct err *err) MUST_CHECK;
