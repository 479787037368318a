# frozen_string_literal: true

require "spec_helper"

# Each example runs in its own process, because both frameworks are already loaded here.
RSpec.describe "Plock::Testing in a test framework" do
  def tested(program)
    ruby(program, env: { "PLOCK_URL" => "memory:" }).first
  end

  describe "Minitest" do
    def minitest(body)
      tested(<<~RUBY)
        require "minitest/autorun"
        require "plock/testing/minitest"
        class ATest < Minitest::Test
          include Plock::Testing::Assertions
          #{body}
        end
      RUBY
    end

    it "has assertions that can fail, with messages that tell what happened" do
      output = minitest(<<~'RUBY')
        def test_1 = assert_locked("import")
        def test_2 = Plock.acquire("import", label: "night") { refute_locked("import") }
        def test_3 = assert_acquires("a", "b") { Plock.acquire("a") { nil } }
        def test_4 = refute_acquires("a", "b") { Plock.acquire(:a) { nil } }
        def test_5 = assert_acquires { nil }
        def test_6 = refute_acquires { Plock.semaphore("s", permits: 2).acquire { nil } }
        def test_7 = assert_acquires("a", message: "no import") { nil }
      RUBY
      expect(output).to match(/^7 runs, 7 assertions, 7 failures, 0 errors/)
        .and match(/^Expected "import" to be locked\.$/)
        .and match(/^Expected "import" not to be locked: held .*"night"/)
        .and match(/^Expected the block to acquire "a", "b", but it acquired "a"\.$/)
        .and match(/^Expected the block not to acquire "a", "b", but it acquired "a"\.$/)
        .and match(/^Expected the block to acquire a key, but it acquired no key\.$/)
        .and match(/^Expected the block not to acquire a key, but it acquired "s"\.$/)
        .and match(/^no import\.\nExpected the block to acquire "a"/)
    end

    it "pretends until the end of the test, and has the configured store again afterwards" do
      output = minitest(<<~'RUBY')
        i_suck_and_my_tests_are_order_dependent!
        def test_1
          pretend_taken("k", label: "web-2")
          assert_equal("web-2", Plock.status("k").label)
        end
        def test_2 = refute_locked("k")
        def test_3 = pretend_down || assert_raises(Plock::UnavailableError) { Plock.status("k") }
        def test_4 = refute_locked("k")
        def test_5 = assert_raises(ArgumentError) { pretend_lost("k") }
        def test_6 = pretend_taken("k") && assert_raises(ArgumentError) { pretend_taken("k") }
        def test_7 = assert_acquires { pretend_taken("k") { Plock.acquire("l") { nil } } }
        def after_teardown
          super
          Plock::Testing.store
          print Plock.store.url, " "
        end
      RUBY
      expect(output).to match(/^7 runs, 7 assertions, 0 failures, 0 errors/)
    end
  end

  it "has tests that run in threads share one store, and none of them use the configured one" do
    output = ruby(<<~'RUBY', env: { "PLOCK_URL" => "redis://localhost:1", "MT_CPU" => "2" }).first
      require "minitest/autorun"
      require "plock/testing/minitest"
      BEGUN, ENDED = Queue.new, Queue.new
      class ATest < Minitest::Test
        include Plock::Testing::Assertions
        parallelize_me!
        def test_short
          lease = Plock.acquire("short", ttl: 60)
          BEGUN.pop
          assert_predicate lease, :valid?
        end
        def test_long
          lease = Plock.acquire("long", ttl: 60)
          BEGUN << true
          ENDED.pop
          assert_predicate lease, :valid?
          assert_locked "long"
        end
        def after_teardown
          super
          ENDED << true
        end
      end
    RUBY
    expect(output).to match(/^2 runs, \d assertions, 0 failures, 0 errors/)
  end

  it "gives tests of Rails a store before their setup, and until after their teardown" do
    output = tested(<<~'RUBY')
      require "logger"
      require "active_support"
      require "active_support/test_case"
      require "minitest/autorun"
      require "plock/testing/minitest"
      class ActiveSupport::TestCase
        include Plock::Testing::Assertions
      end
      class ATest < ActiveSupport::TestCase
        setup { @taken = pretend_taken("k") }
        teardown { assert_locked("k") && @taken.release }
        test("one") { assert_locked("k") }
        test("two") { assert_locked("k") }
      end
    RUBY
    expect(output).to match(/^2 runs, 4 assertions, 0 failures, 0 errors/)
  end

  it "gives RSpec matchers that can fail, and the configured store to an example that wants it" do
    output = tested(<<~'RUBY')
      require "rspec/autorun"
      require "plock/testing/rspec"
      Plock.configure { |c| c.url = "memory:configured" }
      RSpec.configure { |c| c.color_mode = :off }
      RSpec.describe "It" do
        it { expect(Plock).to have_locked("import") }
        it { Plock.acquire("k", label: "night") { expect(Plock).not_to have_locked("k") } }
        it { expect { Plock.acquire("a") { nil } }.to have_acquired("a", "b") }
        it { expect { Plock.acquire("a") { nil } }.not_to have_acquired("b", "a") }
        it { expect { nil }.to have_acquired }
        it { expect { raise IOError, "own" }.to have_acquired }
        it("is fresh") { expect(Plock.store.url).to eq("memory:") }
        it("is real", plock: false) { expect(Plock.store.url).to eq("memory:configured") }
      end
    RUBY
    expect(output).to include("8 examples, 6 failures")
      .and include('expected "import" to be locked')
      .and match(/expected "k" not to be locked: held .*"night"/)
      .and include('expected the block to acquire "a", "b", but it acquired "a"')
      .and include('expected the block not to acquire "b", "a", but it acquired "a"')
      .and include("expected the block to acquire a key, but it acquired no key")
      .and match(/IOError:\s+own/)
  end
end
