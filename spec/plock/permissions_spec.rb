# frozen_string_literal: true

require "spec_helper"
require "support/documents"

# docs/operations.md lists the fewest permissions that a user needs. With them, everything must
# work. If a permission is missing, an error must name it.
RSpec.describe "A user with few rights" do
  rules = Support::Documents.acl.drop(3)

  let(:server) { redis_server }
  let(:database) { 0 }
  let(:holder) { open_store(server.url(db: database)) }

  def admitted = open_store(server.url(user: "locks", password: "correct horse", db: database))

  # Creates the user with these rules. The rule `without` is left out, or replaced by `with`.
  def let_in(rules, without: nil, with: nil)
    expect(rules).to include(without) if without
    server.call(
      "ACL",
      "SETUSER",
      "locks",
      "reset",
      *rules
        .map { |rule| rule.start_with?(">") ? ">correct horse" : rule }
        .flat_map { |rule| rule == without ? [*with] : [rule] }
    )
  end

  # Grants all permissions, and then ends the waiters and releases the leases of a failed attempt.
  # Otherwise, a later attempt could hand its lock to one of these waiters. That waiter could not
  # release the lock without the missing permission.
  def clear_away
    server.call("ACL", "SETUSER", "locks", "~*", "&*", "+@all")
    threads.each(&:kill).each { |thread| eventually { !thread.alive? } }.clear
    taken.each(&:release).clear
  end
  after { clear_away }

  def taken = @taken ||= []
  def threads = @threads ||= []
  def background(...) = super.tap { |thread| threads << thread }

  def take(store, key, **options) = store.acquire(key, **options).tap { |lease| taken << lease }

  # A waiter is refused, queued and admitted. Then its lease is renewed, extended, listed and
  # broken.
  def use_everything(store = admitted, key = unique_key)
    holds = take(holder, key)
    waiting = background { take(store, key, wait: 10, renew: true, label: "label") }
    eventually { !waiting.alive? || store.status(key).waiters.size == 1 }
    holds.release
    lease = waiting.value
    behind = background { store.try_acquire(key, wait: 0.2) }
    expect([behind.value, lease.extend(ttl: 5).valid?, store.status(key).held?]).to eq [
      nil,
      true,
      true
    ]
    expect(store.each_lock.map(&:store_key)).to eq [lease.store_key]
    expect(store.break(key)).to be true
    eventually { lease.lost? }
    expect(take(store, key).release).to be true
    use_shares(store.read_write_lock(key), holder.read_write_lock(key))
    expect(store.acquire_all([key, "#{key}'"], wait: 0, &:size)).to be 2
    expect(store.once(key, within: 10) { :ran }.value).to be :ran
  end

  # First, breaks a read lease that has been released, but that `at_least:` still keeps. Then a
  # writer waits for a reader, extends its lease and downgrades it, so that the next reader enters.
  def use_shares(lock, others)
    lock.read(at_least: 5).tap { |lease| taken << lease }.release
    lock.break
    reader = others.read.tap { |lease| taken << lease }
    writer = background { lock.write(wait: 10, renew: true).tap { |lease| taken << lease } }
    eventually { !writer.alive? || lock.status.waiters.size == 1 }
    reader.release
    lease = writer.value
    behind = background { others.read(wait: 10) { :entered } }
    eventually { !behind.alive? || others.status.waiters.size == 1 }
    expect([lease.extend(ttl: 5).downgrade.mode, behind.value, lock.status.holders.size]).to eq [
      :read,
      :entered,
      1
    ]
    expect([background { lock.try_write(wait: 0.1) }.value, lease.release]).to eq [nil, true]
  end

  # Ignores the command that names the connection, CLIENT SETNAME, because it may be denied. Redis 6
  # reports it without its subcommand.
  def expect_nothing_denied(but: []) =
    expect(denied - %w[client|setname client] - but).to be_empty

  it "does everything with the rights that the documents list" do
    let_in(rules)
    use_everything
    expect_nothing_denied
  end

  it "does everything by functions, with the rights that they list for that",
     redis_version: "7" do
    instead = Support::Documents.rights("The user then needs")
    expect(instead & rules).not_to be_empty
    let_in(rules - instead + (instead - rules))
    use_everything
    expect_nothing_denied(but: ["evalsha"]) # plock tries scripts first
  end

  describe "in a database other than 0" do
    let(:database) { 1 }

    it "does everything with the right that the documents list for it, too" do
      let_in(rules + Support::Documents.rights("With a database other than 0"))
      use_everything
      expect_nothing_denied
    end

    it "is told that the right is missing" do
      let_in(rules)
      expect { admitted.status(unique_key) }.to raise_error(Plock::PermissionError, /select/i)
    end
  end

  def denied =
    server
      .call("ACL", "LOG")
      .map { |entry| (entry.is_a?(Hash) ? entry : entry.each_slice(2).to_h).fetch("object") }

  it "needs each of them" do
    behind_a_lost_reply = "+eval" # for the undo of an acquire without a reply
    spare = (rules.grep(/\A\+/) - [behind_a_lost_reply]).select do |rule|
      server.call("FLUSHALL")
      server.call("SCRIPT", "FLUSH")
      let_in(rules, without: rule)
      attempt { use_everything }.nil?
    end
    expect(spare).to be_empty
  end

  {
    "+evalsha" => "EVALSHA", "+subscribe" => "SUBSCRIBE", "+publish" => "publish"
  }.each do |right, name|
    it "is told that #{name} is missing" do
      let_in(rules, without: right)
      expect { missing }.to raise_error(Plock::PermissionError, /#{name}/i)
    end
  end

  it "is told that the channel is missing" do
    let_in(rules, without: "&plock:1:wake:*")
    expect { missing }.to raise_error(Plock::PermissionError, /channel/i)
  end

  def attempt
    yield
  rescue Plock::Error, RSpec::Expectations::ExpectationNotMetError => e
    e
  ensure
    clear_away
  end

  # Makes the calls that need the permissions above: the user waits for a held lock until a
  # timeout, acquires the lock later, and hands it over to a waiter.
  def missing(store = admitted, key = unique_key)
    holds = take(holder, key)
    background { store.try_acquire(key, wait: 0.3) }.value
    holds.release
    lease = take(store, key)
    waiting = background { take(holder, key) }
    eventually { holder.status(key).waiters.size == 1 }
    lease.release
    waiting.value
  end
end
