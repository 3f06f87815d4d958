-- outside of a transaction
-- Calls that ended long ago are forgotten.
drop index concurrently if exists calls_finished_at_idx;
create index concurrently calls_finished_at_idx on calls (finished_at) where finished_at is not null;
