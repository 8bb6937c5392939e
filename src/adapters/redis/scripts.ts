import { createHash } from 'node:crypto';

/** A Lua script, which Redis runs atomically. */
export interface Script {
  readonly body: string;
  readonly sha: string;
}

const script = (body: string): Script => ({ body, sha: createHash('sha1').update(body).digest('hex') });

/**
 * A counter of requests. KEYS: the counter. ARGV: the amount to add, its lifetime in milliseconds. Returns the total,
 * and the milliseconds that are left.
 */
export const COUNT = script(`
local total = redis.call('INCRBY', KEYS[1], ARGV[1])
local left = redis.call('PTTL', KEYS[1])
if left < 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  left = tonumber(ARGV[2])
end
return {total, left}
`);

/**
 * Rows and position of one partition. KEYS: the position, an owner's plants, the parked owners. ARGV: the least score,
 * the limit, the owner. Returns nothing where the generation lacks the partition; else one text, which takes the caller
 * half the time of an array: the position, a space and the parked owner (if so), a line end, and the members one after
 * the other.
 */
export const LIST = script(`
local position = redis.call('GET', KEYS[1])
if not position then return false end
local parked = redis.call('HGET', KEYS[3], ARGV[3])
return position .. (parked and ' ' .. parked or '') .. '\\n' ..
  table.concat(redis.call('ZRANGEBYSCORE', KEYS[2], ARGV[1], '+inf', 'LIMIT', 0, ARGV[2]))
`);

/** As LIST, as an array with the scores: verification compares them with the members. */
export const PAGE = script(`
local position = redis.call('GET', KEYS[1])
if not position then return false end
local parked = redis.call('HGET', KEYS[3], ARGV[3])
return {position .. (parked and ' ' .. parked or ''),
  redis.call('ZRANGEBYSCORE', KEYS[2], ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[2])}
`);

/** Positions have one length, except the empty start. Lua's own < depends on the server's locale. */
const BEFORE = `
local function before(a, b)
  if #a ~= #b then return #a < #b end
  for i = 1, #a do
    local x, y = a:byte(i), b:byte(i)
    if x ~= y then return x < y end
  end
  return false
end
`;

/**
 * A partition's hash of parked owners: the field # holds their number, #kept keeps the hash in existence, each other
 * field is an encoded owner with `applied|missed|` and JSON (see ParkedOwner). Changes of the owner may have been left
 * out up to `missed`.
 */
const PARKED = `
local function parkedAs(owner)
  local text = redis.call('HGET', KEYS[2], owner)
  if not text then return nil end
  return text:match('^([^|]*)|([^|]*)|(.*)$')
end
`;

/**
 * Applies changes to one partition. KEYS: the position, the parked owners, then plants of owners. ARGV: from, upTo, the
 * number of refused events; for each of these its owner, its position, the position before it, and JSON; for each
 * changed plant the number of its key, the id, the position, and the new member or nothing. Returns the position
 * afterwards. The first write may be refused (memory, a full disk) and must change nothing; further ones of a script
 * are not refused. The position is set last: where a row cannot be written, the batch is applied again.
 */
export const APPLY = script(`${BEFORE}${PARKED}
local stored = redis.call('GET', KEYS[1])
local position, upTo = stored or '', ARGV[2]
if before(position, ARGV[1]) or stored and not before(position, upTo) then return position end
redis.call('SET', KEYS[1], position)
local refused, overlaps = tonumber(ARGV[3]), position ~= ARGV[1]
local lookForParked = refused > 0 or redis.call('HGET', KEYS[2], '#')
local since, missed = {}, {}
local function parkedSince(owner)
  if since[owner] == nil then since[owner] = parkedAs(owner) and '' or false end
  return since[owner]
end
local first = 4
for _ = 1, refused do
  local owner, at = ARGV[first], ARGV[first + 1]
  if before(position, at) then
    if parkedSince(owner) then missed[owner] = true
    else
      since[owner] = at
      redis.call('HSET', KEYS[2], owner, ARGV[first + 2] .. '|' .. at .. '|' .. ARGV[first + 3])
      redis.call('HINCRBY', KEYS[2], '#', 1)
    end
  end
  first = first + 4
end
for i = first, #ARGV, 4 do
  local plants, id, at, member = KEYS[tonumber(ARGV[i])], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local new = not overlaps or before(position, at)
  if new and lookForParked then
    local owner = plants:match(':owner:(.*)$')
    local from = parkedSince(owner)
    if from and before(from, at) then new, missed[owner] = false, true end
  end
  if new then
    redis.call('ZREMRANGEBYSCORE', plants, id, id)
    if member ~= '' then redis.call('ZADD', plants, id, member) end
  end
end
for owner in pairs(missed) do
  local applied, _, event = parkedAs(owner)
  redis.call('HSET', KEYS[2], owner, applied .. '|' .. upTo .. '|' .. event)
end
redis.call('SET', KEYS[1], upTo)
return upTo
`);

/**
 * A step of healing a parked owner. KEYS: the position, the parked owners, the owner's plants. ARGV: the owner, from,
 * upTo, the least position of the partition, the owner's next state (answered, parked, or the JSON of the next refused
 * event), then for each changed plant the id, and the new member or nothing. Returns whether it was done.
 */
export const HEAL = script(`${BEFORE}${PARKED}
local owner, upTo, becomes = ARGV[1], ARGV[3], ARGV[5]
local position = redis.call('GET', KEYS[1])
local applied, missed, event = parkedAs(owner)
if not position or applied ~= ARGV[2] or before(position, ARGV[4]) then return 0 end
if becomes == 'answered' and before(upTo, missed) then return 0 end
redis.call('SET', KEYS[1], position)
for i = 6, #ARGV, 2 do
  redis.call('ZREMRANGEBYSCORE', KEYS[3], ARGV[i], ARGV[i])
  if ARGV[i + 1] ~= '' then redis.call('ZADD', KEYS[3], ARGV[i], ARGV[i + 1]) end
end
if becomes == 'answered' then
  redis.call('HDEL', KEYS[2], owner)
  if redis.call('HINCRBY', KEYS[2], '#', -1) < 1 then redis.call('HDEL', KEYS[2], '#') end
elseif becomes == 'parked' then
  redis.call('HSET', KEYS[2], owner, upTo .. '|' .. missed .. '|' .. event)
else
  if before(missed, ARGV[4]) then missed = ARGV[4] end
  redis.call('HSET', KEYS[2], owner, upTo .. '|' .. missed .. '|' .. becomes)
end
return 1
`);

/**
 * Registers a new generation. KEYS: the registry. ARGV: the log's identity, a random suffix. Returns its number. Fields
 * of the registry: log, the identity, for operators; last, the highest number so far; for each generation its number,
 * with its key; active, with the key of the active one; and replaced, with the key of the one that was active before.
 */
export const CREATE = script(`
local number = string.format('%d', redis.call('HINCRBY', KEYS[1], 'last', 1))
redis.call('HSET', KEYS[1], 'log', ARGV[1], number, number .. '-' .. ARGV[2])
return number
`);

/** KEYS: the registry. ARGV: a number, its key, and the key that was active at the comparison, or nothing. */
export const PROMOTE = script(`
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 'missing' end
if (redis.call('HGET', KEYS[1], 'active') or '') ~= ARGV[3] then return 'moved' end
redis.call('HSET', KEYS[1], 'active', ARGV[2])
if ARGV[3] == '' then redis.call('HDEL', KEYS[1], 'replaced')
else redis.call('HSET', KEYS[1], 'replaced', ARGV[3]) end
return 'promoted'
`);

/** KEYS: the registry. ARGV: a number, which is removed unless it is active. */
export const DROP = script(`
local key = redis.call('HGET', KEYS[1], ARGV[1])
if key and key == redis.call('HGET', KEYS[1], 'active') then return 'active' end
redis.call('HDEL', KEYS[1], ARGV[1])
return 'dropped'
`);

/** KEYS: the lease. ARGV: a holder, for how many milliseconds. */
export const TAKE_LEASE = script(`
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
`);

/** KEYS: the lease. ARGV: its holder. */
export const RETURN_LEASE = script(`
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
`);

/**
 * KEYS: the hash of reports. A field is a process; its value is when it expires, in milliseconds of the server's clock,
 * a colon, and the text. Each script removes what has expired.
 */
const HOLDING_REPORTS = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local holding = {}
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local ends, text = all[i + 1]:match('^(%d+):(.*)$')
  if ends and tonumber(ends) > now then holding[#holding + 1] = {all[i], text}
  else redis.call('HDEL', KEYS[1], all[i]) end
end
`;

/** KEYS: the hash of reports. ARGV: a process, its text, its lifetime in milliseconds. */
export const REPORT = script(`${HOLDING_REPORTS}
redis.call('HSET', KEYS[1], ARGV[1], string.format('%d', now + ARGV[3]) .. ':' .. ARGV[2])
return 1
`);

/** KEYS: the hash of reports. Returns pairs of process and text. */
export const REPORTS = script(`${HOLDING_REPORTS}
return holding
`);

/** Does nothing: tests whether scripts may be run. */
export const PROBE = script('return 1');
