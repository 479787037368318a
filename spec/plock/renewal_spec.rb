# frozen_string_literal: true

require "spec_helper"
require "support/busy_ruby"

# The worker thread renews leases, whatever Ruby does meanwhile.
RSpec.describe "Renewal" do
  include Support::BusyRuby

  ttl = 0.9
  let(:store) { open_store }
  let(:key) { unique_key }

  def take(ttl: 0.9, max_hold: nil) = store.acquire(key, ttl: ttl, renew: true, max_hold: max_hold)

  it "goes on while Ruby holds the GVL for three times as long as the lease lasts", :timing,
     :slow do
    hold = take(ttl: 1.0) # long enough for a busy machine
    longest = longest_silence { hold_gvl(3.0) }
    expect(longest).to be > 3.0 # no Ruby thread could have renewed the lease
    expect([hold.valid?, hold.lost?, held?(hold), hold.release]).to eq [true, false, true, true]
  end

  def held?(hold) = shared_redis.call("GET", hold.store_key) == hold.token

  it "goes on while the process stands still in C without the GVL" do
    hold = take
    reached = hold.valid_until
    eventually { hold.valid_until > reached + 2 * ttl }
    expect(hold.release).to be true
  end

  it "ends with the release, and leaves the next holder's time alone" do
    hold = take
    hold.release
    following = store.acquire(key, ttl: 30)
    eventually { monotonic_after(ttl) }
    expect(shared_redis.call("PTTL", following.store_key)).to be > 20_000
    expect([hold.lost?, hold.valid?, following.valid?]).to eq [false, false, true]
    following.release
  end

  def monotonic_after(span) = (@since ||= monotonic) && monotonic - @since > span

  it "ends with max_hold" do
    hold = take(max_hold: 1.2)
    held_for = hold.held_for
    granted_at = Plock::Clock.now - held_for
    eventually(10) { hold.lost? }
    expect(hold.held_for).to be >= 1.2
    expect(hold.valid_until).to be <= granted_at + 1.2 + ttl # `max_hold:` ended the renewals
    eventually { !held?(hold) } # on the server, the key lasts a little longer than the lease
  end

  it "outlasts a server that is gone for a while" do
    server = redis_server
    gate = proxy(server)
    store = open_store(gate.url)
    hold = store.acquire(key, ttl: 3, renew: true)
    gate.half_open
    reached = hold.valid_until
    # the renewal began when 2.0 s were left, and has failed when 1.4 s are left
    eventually(4) { reached - Process.clock_gettime(Process::CLOCK_BOOTTIME) < 1.4 }
    gate.clear
    eventually(4) { hold.valid_until > reached }
    expect(hold.release).to be true
  end

  # A call without `ttl:` enters the list of later renewals even before it has the lock.
  # When the second call times out, it leaves the list without waking the worker thread. The thread
  # must still notice that the list is empty, and end.
  it "leaves no thread behind after a wait that was too long", :slow do
    output, status = ruby(<<~RUBY, key, shared_redis.unix_url, within: 40)
      require "plock"
      key, url = ARGV
      names = -> { Dir["/proc/self/task/*/comm"].map { |file| File.read(file).chomp } }
      Plock::Store.open(url).acquire(key, ttl: 30) do
        Plock::Store.open(url).acquire(key, wait: 1.0) { nil }
      rescue Plock::TimeoutError
        began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        while names.call.include?("plock-worker")
          abort "it is still there" if Process.clock_gettime(Process::CLOCK_MONOTONIC) - began > 20
          sleep 0.05
        end
        print "ended"
      end
    RUBY
    expect([output, status.success?]).to eq ["ended", true]
  end
end
