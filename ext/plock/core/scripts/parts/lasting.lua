-- Makes the companion last for noted_for ms at least.
if redis.call('PTTL', companion) < tonumber(noted_for) then
  redis.call('PEXPIRE', companion, noted_for)
end
