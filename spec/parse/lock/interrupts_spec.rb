# frozen_string_literal: true

require "timeout"
require_relative "../parse_context"
require "support/fault_points"

# A thread may be killed, or receive an exception, at any point while it acquires or releases a
# lock. Afterwards the lock is free.
RSpec.describe Parse::Lock, "interrupted" do
  include_context "with Parse"

  let(:folder) { File.join(Support::Examples::LIB, "parse/") }
  let(:mutexes) { Parse::Lock::Degraded::MUTEXES }
  let(:interruption) { Class.new(Exception) } # rubocop:disable Lint/InheritException

  # A store that the application has defined.
  let(:store) do
    Class.new do
      attr_reader :owners

      def initialize = @owners = {}
      def lock_acquire(key, owner, _ttl) = !@owners.key?(key) && (@owners[key] = owner) && true
      def lock_release(key, owner) = @owners[key] == owner && @owners.delete(key) && true
    end.new
  end

  before do
    Parse::LockBackend.reset! # loads it now, so that no interrupt hits its autoload
  end

  def within_process(wait: 0) = acquire(on_degraded: :proceed, wait: wait) { :inside }

  def free?(name = store_key)
    held = mutexes.hold(name, 0, Object.new) { |mine| mine }
    mutexes.clear
    held && mutexes.size.zero?
  end

  ways = {
    "Thread#kill" => ->(thread, _error) { thread.kill },
    "Thread#raise, as Timeout has it" => ->(thread, error) { thread.raise(error) },
    "a signal handler that raises" => nil
  }
  ways.each do |name, way|
    describe "by #{name}" do
      # Interrupts the work at one point after another. After each interrupt, the block checks
      # that everything is free.
      def interrupt_everywhere(way, work, at_least: 10)
        held_after = []
        after = ->(_number, place) { yield || held_after << place }
        points =
          Support::FaultPoints.each(
            folder, work, after: after, error: way ? nil : interruption
          ) { |thread| way.call(thread, interruption) }
        expect(held_after).to be_empty
        expect(points).to be >= (way ? at_least : 3)
      end

      it "anywhere in a lock without a store" do
        interrupt_everywhere(way, -> { within_process }, at_least: 30) { free? }
      end

      it "anywhere in a wait for a lock without a store" do
        holder = nil
        work = -> do
          inside, leave = Queue.new, Queue.new
          holder =
            Thread.new { mutexes.hold(store_key, 0, Object.new) { inside.push(true) && leave.pop } }
          inside.pop
          waiter = Thread.current
          # the waiter sleeps when it waits for the lock, or when it has reached the point of the
          # interrupt
          Thread.new { eventually { waiter.stop? } && leave.push(true) }
          within_process(wait: 20)
        end
        interrupt_everywhere(way, work, at_least: 30) { holder.nil? || (holder.join && free?) }
      end

      it "anywhere in synchronize_process_mutex" do
        interrupt_everywhere(
          way, -> { Parse::LockBackend.synchronize_process_mutex("key") { :inside } }
        ) { free?("key") }
      end

      it "anywhere in a section that uses a process_mutex" do
        work = -> { Parse::LockBackend.process_mutex("key").synchronize { :inside } }
        interrupt_everywhere(way, work) { free?("key") }
      end

      it "anywhere in a lock of the application's own store" do
        Parse.synchronize_create_store = store
        interrupt_everywhere(way, -> { acquire(wait: 0) { :inside } }, at_least: 30) do
          store.owners.empty? || store.owners.clear && false
        end
      end
    end
  end

  it "by the end of the thread that has locked a process_mutex, as a Mutex does" do
    mutex = Parse::LockBackend.process_mutex("key")
    Thread.new { mutex.lock }.join
    expect([mutex.locked?, mutex.try_lock]).to eq([false, true])
    mutex.unlock
  end

  it "lets one in who waits for a process_mutex whose thread ends" do
    mutex = Parse::LockBackend.process_mutex("key")
    leave = Queue.new
    holder = background { mutex.lock && leave.pop }
    await_sleep(holder)
    waiter = await_sleep(background { mutex.synchronize { :inside } })
    holder.kill
    expect(waiter.join(10)&.value).to be(:inside)
  end

  it "in a process_mutex that its thread no longer has leaves nothing for another to unlock" do
    mutex = Parse::LockBackend.process_mutex("key")
    Thread.new { mutex.lock }.join
    expect { mutex.unlock }.to raise_error(ThreadError)
  end

  it "keeps the caller's own masks in the block" do
    masked = nil
    Thread.handle_interrupt(interruption => :never) do
      thread = Thread.current
      within = acquire(on_degraded: :proceed) do
        Thread.new { thread.raise(interruption) }.join
        Thread.pending_interrupt?
      end
      masked = within
    end
  rescue interruption
    expect(masked).to be(true)
  end

  it "many times at random moments" do
    expect(200.times.count do |round|
      entered = Queue.new
      thread =
        background do
          loop do
            [Thread.pass, acquire(on_degraded: :proceed) { entered.push(true) && Thread.pass }]
          end
        end
      entered.pop
      (round % 7).times { Thread.pass }
      round.even? ? thread.kill : thread.raise(interruption)
      begin
        thread.join
      rescue interruption
        nil
      end
      !free?
    end).to be(0)
  end
end
