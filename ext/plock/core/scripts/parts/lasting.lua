-- Makes the companion last for at least noted_for ms.
if redis.call('PTTL', companion) < tonumber(noted_for) then
  redis.call('PEXPIRE', companion, noted_for)
end
