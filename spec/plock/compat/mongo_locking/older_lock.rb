# frozen_string_literal: true

# The counter protocol of the gem mongo-locking, rewritten for processes that run beside plock's. A
# document counts the callers that have asked. The first caller has the lock. The other callers
# decrement the count again, and retry later.
class OlderMongoLock
  INTERVAL = 0.02

  # A callable that an example can run between the two steps of an acquire: after the count is
  # incremented, and before the time is written.
  attr_writer :between

  # @param collection [StandIn::OldCollection]
  def initialize(collection, scope, key)
    @collection = collection
    @place = { "scope" => scope, "key" => key }
  end

  # @return [Boolean] is the lock acquired?
  def acquire(tries: 1, lifetime: 600)
    tries.times do |tried|
      sleep INTERVAL if tried.positive?
      return true if first?(lifetime)
    end
    false
  end

  def release
    left = count(-1)
    remove if left["refcount"].zero?
    left["refcount"]
  end

  private

  def first?(lifetime)
    found = count(1)
    found =
      modify(@place.merge("refcount" => { "$gt" => 1 }), "$inc" => { "refcount" => -1 }) if found[
      "expire_at"
    ]&.<(Time.now)
    return false unless found
    if found["refcount"] == 1
      @between&.call
      return modify(@place, "$set" => { "expire_at" => Time.now.utc + lifetime }) && true
    end

    count(-1) if found["refcount"] > 1
    false
  end

  def count(by) = modify(@place, "$inc" => { "refcount" => by })

  def modify(filter, changes)
    @collection.find_and_modify(
      new: true, upsert: !filter.key?("refcount"), query: filter.merge("$atomic" => 1),
      update: changes
    )
  rescue StandIn::Mongo::OperationFailure
    nil
  end

  def remove
    @collection.find_and_modify(query: @place.merge("refcount" => 0, "$atomic" => 1), remove: true)
  rescue StandIn::Mongo::OperationFailure
    nil
  end
end
